// SPDX-License-Identifier: Apache-2.0
#include "fake_model_host.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace castor::test {
namespace {

bool is_bf16(const FakeParam& param) { return param.dtype.code == kDLBfloat; }

std::size_t element_bytes(const FakeParam& param) { return param.dtype.bits / 8; }

float widen(std::uint16_t half) {
  const std::uint32_t bits = std::uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint16_t narrow_exactly(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0xffff) != 0) throw std::invalid_argument("a scripted gradient is not exact in bf16");
  return static_cast<std::uint16_t>(bits >> 16);
}

/// A gradient with the memory that it owns; its manager_ctx points here.
struct Gradient {
  DLManagedTensor managed{};
  std::vector<std::int64_t> shape;
  std::vector<unsigned char> bytes;
  std::shared_ptr<int> n_live;
};

void delete_gradient(DLManagedTensor* managed) {
  std::unique_ptr<Gradient> gradient(static_cast<Gradient*>(managed->manager_ctx));
  --*gradient->n_live;
}

std::vector<unsigned char> encode(const FakeParam& param, const std::vector<float>& values) {
  std::vector<unsigned char> bytes(values.size() * element_bytes(param));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = is_bf16(param) ? narrow_exactly(values[i]) : std::uint16_t{0};
    if (is_bf16(param))
      std::memcpy(&bytes[2 * i], &half, 2);
    else
      std::memcpy(&bytes[4 * i], &values[i], 4);
  }
  return bytes;
}

}  // namespace

std::uint64_t numel(const std::vector<std::int64_t>& shape) {
  std::uint64_t n = 1;
  for (const std::int64_t extent : shape) n *= static_cast<std::uint64_t>(extent);
  return n;
}

FakeModelHost::FakeModelHost(std::vector<FakeParam> params, std::vector<FakeUnit> units, DLDevice device)
    : params_(std::move(params)), units_(std::move(units)), device_(device), bound_(params_.size()) {
  for (const FakeParam& param : params_)
    if (param.init.size() != numel(param.shape)) throw std::invalid_argument(param.name + ": init and shape differ");
}

void FakeModelHost::log(std::uint32_t, const char* message) {
  const std::lock_guard lock(mutex_);
  calls_.emplace_back(message);
}

Result<void> FakeModelHost::record(const std::string& call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(call);
  if (call != failing_call_) return {};
  return Error{failing_kind_, call + " was told to fail"};
}

Result<void> FakeModelHost::first_values(const castor_values& values) {
  const FakeParam& fake = params_.at(values.param);
  const std::uint64_t n = values.n == CASTOR_ALL ? fake.init.size() - values.first : values.n;
  if (values.first + n > fake.init.size()) throw std::out_of_range(fake.name + ": more first values than it has");
  std::copy_n(fake.init.begin() + static_cast<std::ptrdiff_t>(values.first), n, static_cast<float*>(values.data));
  return record("init " + fake.name);
}

Result<void> FakeModelHost::bind(std::uint32_t param, void* data) {
  const std::string call = "bind " + params_.at(param).name;
  CASTOR_TRY(record(call));
  if (failing_bind_ != nullptr && failing_bind_->is_this()) return Error{ErrorKind::failed, call + " was told to fail"};
  if (!data || reinterpret_cast<std::uintptr_t>(data) % 512 != 0)
    return Error{ErrorKind::plugin, call + ": its memory does not start at a multiple of 512 B"};
  bound_[param] = data;
  return {};
}

Result<void> FakeModelHost::unbind(std::uint32_t param, const char* why) {
  bound_.at(param) = nullptr;
  return record("unbind " + params_[param].name + ": " + why);
}

Result<castor_param_info> FakeModelHost::param_info(std::uint32_t param) {
  const FakeParam& fake = params_.at(param);
  auto info = blank<castor_param_info>();
  info.flags = fake.trainable ? CASTOR_PARAM_TRAINABLE : 0;
  info.name = fake.name.c_str();
  info.shape = fake.shape.data(), info.ndim = static_cast<std::int32_t>(fake.shape.size());
  info.dtype = fake.dtype, info.numel = numel(fake.shape), info.storage = param;
  return info;
}

Result<castor_unit_info> FakeModelHost::unit_info(std::uint32_t unit) {
  const FakeUnit& fake = units_.at(unit);
  return castor_unit_info{sizeof(castor_unit_info), static_cast<std::uint32_t>(fake.params.size()), fake.name.c_str(),
                          fake.params.data()};
}

std::vector<float> FakeModelHost::weights(std::uint32_t param) const {
  const FakeParam& fake = params_.at(param);
  std::vector<float> values(fake.init.size());
  if (!is_bf16(fake)) std::memcpy(values.data(), bound_.at(param), values.size() * sizeof(float));
  for (std::size_t i = 0; is_bf16(fake) && i < values.size(); ++i)
    values[i] = widen(static_cast<const std::uint16_t*>(bound_.at(param))[i]);
  return values;
}

DLManagedTensor* FakeModelHost::make_gradient(std::uint32_t param, const std::vector<float>& values) {
  const FakeParam& fake = params_.at(param);
  if (values.size() != fake.init.size())
    throw std::invalid_argument(fake.name + ": a scripted gradient has the wrong length");
  auto gradient = std::make_unique<Gradient>();
  gradient->shape = fake.shape;
  gradient->bytes = encode(fake, values);
  gradient->n_live = n_live_gradients_;
  ++*n_live_gradients_;
  gradient->managed.dl_tensor = {gradient->bytes.data(),
                                 device_,
                                 static_cast<int>(fake.shape.size()),
                                 fake.dtype,
                                 gradient->shape.data(),
                                 nullptr,
                                 0};
  gradient->managed.deleter = delete_gradient;
  gradient->managed.manager_ctx = gradient.get();
  return &gradient.release()->managed;
}

}  // namespace castor::test
