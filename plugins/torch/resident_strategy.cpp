// SPDX-License-Identifier: Apache-2.0
#include "resident_strategy.h"

#include <castor/memory/bytes.h>
#include <castor/memory/host_memory.h>
#include <castor/memory/tier.h>
#include <castor/plugins/step_args.h>
#include <castor/plugins/torch/errors.h>
#include "device_memory.h"
#include "gradient_capture.h"
#include "parameter_checks.h"
#include "parameter_storage.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace castor {
namespace {

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return at::kBFloat16;
    case DType::f16: return at::kHalf;
    default: return at::kFloat;
  }
}

/// The first address in `memory` where a tensor may start.
void* aligned_start(const at::Tensor& memory) {
  const auto address = reinterpret_cast<std::uint64_t>(memory.data_ptr());
  return reinterpret_cast<void*>(align_up(address, kTensorAlignBytes));
}

std::uint64_t bytes_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.nbytes() : 0; }

Result<std::unique_ptr<Device>> open_device(c10::Device device) {
  if (device.is_cpu()) return make_cpu_device();
  return make_cuda_device(device.index());
}

/// A 16-bit sum would lose bits that fp32 keeps, so the second gradient of a step turns the sum into fp32.
at::Tensor accumulate(const at::Tensor& sum, const at::Tensor& grad) {
  if (!sum.defined()) return grad;
  return sum.to(at::kFloat).add_(grad.to(at::kFloat));
}

}  // namespace

ResidentStrategy::ResidentStrategy(AdapterCore& adapter, std::unique_ptr<Device> device, UpdateKernels kernels,
                                   std::unique_ptr<GradNormKernel> norm, const StateFormat& format)
    : adapter_(adapter),
      device_(std::move(device)),
      stream_(device_->wrap_compute_stream(compute_stream(adapter.host().torch_device()))),
      kernels_(std::move(kernels)),
      norm_(std::move(norm)),
      format_(format),
      params_(adapter.host().map().params.size()),
      values_(adapter.host(), params_) {
  adapter_.connect(this, AdapterCore::Hooking::none);
}

ResidentStrategy::~ResidentStrategy() {
  adapter_.disconnect(this);
  for (std::uint32_t id = 0; id < params_.size(); ++id)
    (void)adapter_.host().unbind(id, "the resident strategy has ended");
}

Result<void> ResidentStrategy::place() {
  check_host();
  CASTOR_ASSIGN(sums_, Buffer::allocate(device_->host_memory(), params_.size() * sizeof(double)));
  return guard([&] {
    for (std::uint32_t id = 0; id < params_.size(); ++id) place_param(id);
    std::uint32_t n_registered = 0;
    for (ResidentParam& param : params_)
      if (param.tensor.numel() > 0) param.registered = RegisteredId{n_registered++};
    peak_bytes_ = held_bytes();
  });
}

/// On the CPU, where a process that takes more is killed without a word.
void ResidentStrategy::check_host() const {
  if (!adapter_.host().torch_device().is_cpu()) return;
  std::uint64_t n_bytes = 0;
  for (const auto& param : adapter_.host().map().params) n_bytes += bytes_with_states(param.tensor);
  const LimitedBytes available = host_memory().available;
  if (available.fits(n_bytes)) return;
  const std::string sentence = "parameters, gradients and optimizer states take " + format_bytes(n_bytes) +
                               ", more than " + text_of_available(available) +
                               "; the `plugin` gemini keeps part of them on NVMe (`host_budget`, `nvme`)";
  adapter_.host().log(CASTOR_LOG_WARN, sentence.c_str());
}

/// What place_param() takes for `param`, and its gradient.
std::uint64_t ResidentStrategy::bytes_with_states(const at::Tensor& param) const {
  if (!computes(param)) return param.nbytes();
  const std::uint64_t n_weights_and_master = param.element_size() + c10::elementSize(at::kFloat);
  if (!param.requires_grad()) return param.numel() * n_weights_and_master;
  const std::uint64_t n_moments =
      c10::elementSize(scalar_type_of(exp_avg_dtype(format_.moments))) +
      (format_.keeps_exp_avg_sq ? c10::elementSize(scalar_type_of(exp_avg_sq_dtype(format_.moments))) : 0);
  return param.numel() * (n_weights_and_master + param.element_size() + n_moments);
}

void ResidentStrategy::place_param(std::uint32_t id) {
  ResidentParam& param = params_[id];
  param.tensor = adapter_.host().map().params[id].tensor;
  const bool opaque = !computes(param.tensor);
  const at::Tensor values = at::empty({param.tensor.numel()}, opaque ? param.tensor.scalar_type() : at::kFloat);
  const auto n = static_cast<std::uint64_t>(values.numel());
  const std::uint32_t form = opaque ? CASTOR_OWN : CASTOR_FP32;
  adapter_.host().first_values({sizeof(castor_values), id, 0, n, form, values.mutable_data_ptr()}).value();
  const auto room = static_cast<std::int64_t>(param.tensor.nbytes() + kTensorAlignBytes);
  param.memory = at::empty({room}, at::TensorOptions(at::kByte).device(param.tensor.device()));
  adapter_.host().bind(id, aligned_start(param.memory)).value();
  if (opaque)
    in_storage_order(param.tensor).copy_(values);
  else
    initialise(param, values);
}

void ResidentStrategy::initialise(ResidentParam& param, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  const at::Tensor weights = rounded(values.const_data_ptr<float>(), values.numel(), param.tensor.scalar_type());
  in_storage_order(param.tensor).copy_(weights);
  param.master = values.to(param.tensor.device());
  if (!param.tensor.requires_grad()) return;
  param.exp_avg = at::zeros_like(param.master, scalar_type_of(exp_avg_dtype(format_.moments)));
  if (format_.keeps_exp_avg_sq)
    param.exp_avg_sq = at::zeros_like(param.master, scalar_type_of(exp_avg_sq_dtype(format_.moments)));
}

Result<void> ResidentStrategy::gradient(std::uint32_t, DLManagedTensor* grad) {
  grad->deleter(grad);
  return Error{ErrorKind::failed, "the resident run reads gradients from its parameters; none is handed to it"};
}

Result<void> ResidentStrategy::end_of_backward() {
  return guard([&] {
    for (ResidentParam& param : params_) {
      const at::Tensor grad = std::exchange(param.tensor.mutable_grad(), at::Tensor());
      if (grad.defined()) param.grad = accumulate(param.grad, ordered_as(grad, param.tensor));
    }
    peak_bytes_ = std::max(peak_bytes_, held_bytes());
  });
}

/// Takes no norm and skips no step without clipping by the norm and loss scale, like the placements that this run is
/// compared with.
Result<StepScale> ResidentStrategy::scale_of_step(const StepOptionsBy<ParamId>& options) {
  if (!options.needs_norm()) return StepScale();
  auto* sums = reinterpret_cast<double*>(sums_.data());
  std::size_t n = 0;
  for (const ResidentParam& param : params_) {
    if (!param.grad.defined()) continue;
    CASTOR_TRY(norm_->sum_of_squares(*stream_, param.grad.const_data_ptr(), dtype_of(param.grad),
                                     static_cast<std::uint64_t>(param.grad.numel()), &sums[n++]));
  }
  CASTOR_TRY(stream_->synchronize());
  return combine_norms(sums, n, options.max_norm, options.loss_scale);
}

Result<TrustRatios*> ResidentStrategy::trust_ratios() {
  if (!trust_) {
    CASTOR_ASSIGN(trust_, TrustRatios::make(*device_, static_cast<std::uint32_t>(params_.size())));
  }
  return trust_.get();
}

Result<void> ResidentStrategy::measure_trust(const ResidentParam& param, const UpdateOptions& options,
                                             double grad_scale) {
  CASTOR_ASSIGN(TrustRatios* const ratios, trust_ratios());
  const auto terms = trust_terms(options, grad_scale);
  if (!terms) return {};
  const TrustedTensor tensor = {param.tensor.const_data_ptr(), dtype_of(param.tensor), param.grad.const_data_ptr(),
                                dtype_of(param.grad), static_cast<std::uint64_t>(param.master.numel())};
  return ratios->measure(*stream_, static_cast<std::uint32_t>(&param - params_.data()), *terms, tensor);
}

Result<void> ResidentStrategy::update(ResidentParam& param, const StepOptionsBy<ParamId>& options, double grad_scale) {
  UpdateArrays arrays;
  arrays.master = param.master.mutable_data_ptr<float>();
  arrays.exp_avg = param.exp_avg.mutable_data_ptr();
  if (format_.keeps_exp_avg_sq) arrays.exp_avg_sq = param.exp_avg_sq.mutable_data_ptr();
  arrays.moments = format_.moments;
  arrays.grad = param.grad.const_data_ptr();
  arrays.weight = param.tensor.mutable_data_ptr();
  arrays.grad_dtype = dtype_of(param.grad);
  arrays.weight_dtype = dtype_of(param.tensor);
  arrays.n = static_cast<std::uint64_t>(param.master.numel());
  const auto id = static_cast<std::uint32_t>(&param - params_.data());
  const bool of_direction = options.measures_direction();
  const UpdateOptions& own = options.of(ParamId{id});
  if (options.needs_trust() && !of_direction) CASTOR_TRY(measure_trust(param, own, grad_scale));
  if (of_direction) CASTOR_TRY(trust_ratios());
  const UpdateNumber number = {++param.n_updates, param.registered, format_.rounding_seed,
                               trust_ ? trust_->of(id) : nullptr};
  const UpdateCoefficients coefficients = update_coefficients(own, number, grad_scale);
  if (const auto terms = trust_terms(own, grad_scale); terms && of_direction)
    CASTOR_TRY(trust_->measure(*stream_, id, *terms, std::get<LambCoefficients>(coefficients), {arrays, 0, arrays.n}));
  return kernels_.update(*stream_, coefficients, arrays);
}

Result<std::uint64_t> ResidentStrategy::begin_step(const castor_step_args& args) {
  const auto start = std::chrono::steady_clock::now();
  const auto n_params = static_cast<std::uint32_t>(params_.size());
  CASTOR_TRY(check_step_args(args, n_params));
  const auto options = step_options(args, n_params);
  if (keeps_exp_avg_sq(options.update) != format_.keeps_exp_avg_sq)
    return Error{ErrorKind::usage, "the resident run keeps the states of another rule than the step's"};
  CASTOR_ASSIGN(const StepScale scale, scale_of_step(options));
  for (ResidentParam& param : params_) {
    if (param.grad.defined() && !scale.skip) CASTOR_TRY(update(param, options, scale.grad_scale));
    param.grad.reset();
  }
  update_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return tickets_.add(scale.skip, options.needs_norm() ? scale.grad_norm : -1);
}

Result<castor_step_result> ResidentStrategy::step_result(std::uint64_t ticket) { return tickets_.result_of(ticket); }

/// A backward pass that was broken off has left gradients with the parameters.
Result<void> ResidentStrategy::discard_gradients() {
  return guard([&] {
    for (ResidentParam& param : params_) {
      param.tensor.mutable_grad().reset();
      param.grad.reset();
    }
  });
}

/// That of a step with a norm.
Result<double> ResidentStrategy::measure_norm() {
  StepOptionsBy<ParamId> measured;
  measured.max_norm = 1;
  CASTOR_ASSIGN(const StepScale scale, scale_of_step(measured));
  return scale.grad_norm;
}

std::uint64_t ResidentStrategy::held_bytes() const {
  std::uint64_t held = 0;
  for (const ResidentParam& param : params_)
    for (const at::Tensor& tensor : {param.memory, param.master, param.exp_avg, param.exp_avg_sq, param.grad})
      held += bytes_of(tensor);
  return held;
}

Result<castor_stats> ResidentStrategy::stats() {
  castor_stats stats = {};
  stats.struct_size = sizeof stats;
  std::fill_n(stats.budget_bytes, kNTiers, std::numeric_limits<std::uint64_t>::max());
  const c10::Device device = adapter_.host().torch_device();
  const castor_device_memory memory = device_memory(device);
  const bool on_device = !device.is_cpu();
  stats.used_bytes[index(Tier::device)] = on_device ? memory.reserved : held_bytes();
  stats.peak_bytes[index(Tier::device)] = on_device ? memory.reserved_peak : peak_bytes_;
  stats.update_seconds = update_seconds_;
  return stats;
}

Result<void> ResidentStrategy::write_trace(const char*) {
  return Error{ErrorKind::usage,
               "the resident run (`plugin` none) moves nothing and keeps no trace; train with a plugin to write one"};
}

Result<std::unique_ptr<Strategy>> make_resident_strategy(TorchAdapter& adapter, const StateFormat& format) {
  CASTOR_ASSIGN(auto device, open_device(adapter.core_->host().torch_device()));
  CASTOR_ASSIGN(UpdateKernels kernels, UpdateKernels::make(*device));
  CASTOR_ASSIGN(auto norm, make_grad_norm(*device));
  auto strategy = std::make_unique<ResidentStrategy>(*adapter.core_, std::move(device), std::move(kernels),
                                                     std::move(norm), format);
  CASTOR_TRY(strategy->place());
  return std::unique_ptr<Strategy>(std::move(strategy));
}

}  // namespace castor
