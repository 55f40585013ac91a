// SPDX-License-Identifier: Apache-2.0
#include "poisoning_strategy.h"

#include <ATen/DLConvertor.h>

#include <limits>

namespace castor::testing {

std::vector<std::uint32_t> params_of(ModelHost& host, std::uint32_t unit) {
  const castor_unit_info info = host.unit_info(unit).value();
  return {info.params, info.params + info.n_params};
}

Result<void> first_values(ModelHost& host, std::uint32_t param, std::uint64_t first, std::uint64_t n, float* out) {
  return host.first_values({sizeof(castor_values), param, first, n, CASTOR_FP32, out});
}

at::Tensor initial_values(ModelHost& host, std::uint32_t param, c10::Device device) {
  const castor_param_info info = host.param_info(param).value();
  const at::Tensor values = at::empty({static_cast<std::int64_t>(info.numel)}, at::kFloat);
  first_values(host, param, 0, info.numel, values.mutable_data_ptr<float>()).value();
  return values.to(at::toScalarType(info.dtype))
      .view(at::IntArrayRef(info.shape, static_cast<std::size_t>(info.ndim)))
      .to(device);
}

PoisoningStrategy::PoisoningStrategy(TorchAdapter& adapter, c10::Device device)
    : host_(adapter.host()), device_(device) {
  for (std::uint32_t param = 0; param < adapter.n_params(); ++param)
    homes_.push_back({initial_values(host_, param, device), {}, 0});
}

PoisoningStrategy::~PoisoningStrategy() {
  for (std::uint32_t param = 0; param < homes_.size(); ++param) (void)host_.unbind(param, "the double is gone");
}

Result<void> PoisoningStrategy::record(const std::string& call, std::uint32_t id) {
  log.push_back(call + ' ' + std::to_string(id));
  if (log.back() == fails_at_) return Error{ErrorKind::io, "the drive caught fire at " + fails_at_};
  return {};
}

Result<void> PoisoningStrategy::open(const std::string& call, std::uint32_t unit) {
  CASTOR_TRY(record(call, unit));
  if (!open_units_.insert(unit).second) return Error{ErrorKind::failed, "unit opened twice: " + log.back()};
  for (const std::uint32_t param : params_of(host_, unit)) take(param);
  return {};
}

Result<void> PoisoningStrategy::close(const std::string& call, std::uint32_t unit) {
  CASTOR_TRY(record(call, unit));
  if (open_units_.erase(unit) == 0) return Error{ErrorKind::failed, "unit closed twice: " + log.back()};
  for (const std::uint32_t param : params_of(host_, unit)) leave(param);
  return {};
}

void PoisoningStrategy::take(std::uint32_t param) {
  Home& home = homes_[param];
  if (home.n_users++ > 0) return;
  home.block = home.values.clone();
  (void)host_.bind(param, home.block.data_ptr());
}

void PoisoningStrategy::leave(std::uint32_t param) {
  Home& home = homes_[param];
  if (--home.n_users > 0) return;
  (void)host_.unbind(param, "the double has poisoned it");
  home.block.fill_(std::numeric_limits<double>::quiet_NaN());
  graveyard_.push_back(std::move(home.block));
}

Result<void> PoisoningStrategy::gradient(std::uint32_t param, DLManagedTensor* grad) {
  const at::Tensor tensor = at::fromDLPack(grad);
  CASTOR_TRY(record("gradient", param));
  if (!tensor.is_non_overlapping_and_dense()) return Error{ErrorKind::failed, "a gradient has holes"};
  grads[param].push_back(tensor.clone());
  return {};
}

Result<void> PoisoningStrategy::end_of_backward() {
  log.push_back("end_of_backward");
  const std::set<std::uint32_t> still_open = std::exchange(open_units_, {});
  for (const std::uint32_t unit : still_open)
    for (const std::uint32_t param : params_of(host_, unit)) leave(param);
  return {};
}

Result<std::uint32_t> PoisoningStrategy::keep(const void* data, std::uint64_t n_bytes) {
  if (!keeps) return std::uint32_t{0};
  const auto number = static_cast<std::uint32_t>(kept_.size() + 1);
  const auto bytes = at::for_blob(const_cast<void*>(data), {static_cast<std::int64_t>(n_bytes)})
                         .options(at::TensorOptions(at::kByte).device(device_))
                         .target_device(device_)
                         .make_tensor();
  kept_.push_back(bytes.to(at::kCPU, at::kByte, false, true));
  CASTOR_TRY(record("keep", number));
  return number;
}

Result<void*> PoisoningStrategy::recall(std::uint32_t kept) {
  CASTOR_TRY(record("recall", kept));
  return (recalled_[kept] = kept_.at(kept - 1).to(device_, at::kByte, false, true)).data_ptr();
}

Result<void> PoisoningStrategy::forget(std::uint32_t kept) {
  if (const auto recalled = recalled_.extract(kept)) graveyard_.push_back(recalled.mapped().fill_(0xff));
  return record("forget", kept);
}

PlainMemory::PlainMemory(TorchAdapter& adapter, c10::Device device) {
  ModelHost& host = adapter.host();
  for (std::uint32_t param = 0; param < adapter.n_params(); ++param) {
    values_.push_back(initial_values(host, param, device));
    host.bind(param, values_.back().data_ptr()).value();
  }
}

}  // namespace castor::testing
