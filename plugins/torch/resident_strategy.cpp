// SPDX-License-Identifier: Apache-2.0
#include "resident_strategy.h"

#include <castor/memory/bytes.h>
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

DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16: return DType::bf16;
    case at::kHalf: return DType::f16;
    default: return DType::f32;
  }
}

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return at::kBFloat16;
    case DType::f16: return at::kHalf;
    default: return at::kFloat;
  }
}

/// `n` fp32 values rounded to `type` as updates round, on the CPU.
at::Tensor rounded(const float* values, std::int64_t n, at::ScalarType type) {
  const at::Tensor result = at::empty({n}, type);
  round_weights(values, dtype_of(result), result.mutable_data_ptr(), static_cast<std::uint64_t>(n));
  return result;
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
      params_(adapter.host().map().params.size()) {
  adapter_.connect(this, AdapterCore::Hooking::none);
}

ResidentStrategy::~ResidentStrategy() {
  adapter_.disconnect(this);
  for (std::uint32_t id = 0; id < params_.size(); ++id)
    (void)adapter_.host().unbind(id, "the resident strategy has ended");
}

Result<void> ResidentStrategy::place() {
  CASTOR_ASSIGN(sums_, Buffer::allocate(device_->host_memory(), params_.size() * sizeof(double)));
  return guard([&] {
    for (std::uint32_t id = 0; id < params_.size(); ++id) place_param(id);
    std::uint32_t n_registered = 0;
    for (ResidentParam& param : params_)
      if (param.tensor.numel() > 0) param.registered = RegisteredId{n_registered++};
    peak_bytes_ = held_bytes();
  });
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

Result<void> ResidentStrategy::read_masters(const castor_values& wanted) {
  const at::Tensor param = wanted.param < params_.size() ? params_[wanted.param].tensor : at::empty({0});
  CASTOR_ASSIGN(castor_param_state state,
                masters_of(wanted, static_cast<std::uint64_t>(param.numel()), !computes(param)));
  return read_state(state);
}

Result<ResidentParam*> ResidentStrategy::param_of(const castor_param_state& state) {
  if (state.param < params_.size()) {
    ResidentParam& param = params_[state.param];
    const auto numel = static_cast<std::uint64_t>(param.tensor.numel());
    if (state.first <= numel && state.n <= numel - state.first) return &param;
  }
  return Error{ErrorKind::usage, "there are no values " + std::to_string(state.first) + " to " +
                                     std::to_string(state.first + state.n) + " of parameter " +
                                     std::to_string(state.param)};
}

Result<void> ResidentStrategy::read_state(castor_param_state& state) {
  CASTOR_ASSIGN(ResidentParam* const param, param_of(state));
  state.n_updates = param->n_updates;
  return guard([&] {
    const auto first = static_cast<std::int64_t>(state.first), n = static_cast<std::int64_t>(state.n);
    const auto read = [&](const at::Tensor& from, float* to) {
      if (to != nullptr && from.defined()) at::from_blob(to, {n}, at::kFloat).copy_(from.narrow(0, first, n));
    };
    read(param->master, state.master);
    read(param->exp_avg, state.exp_avg);
    read(param->exp_avg_sq, state.exp_avg_sq);
    if (state.opaque == nullptr) return;
    at::from_blob(state.opaque, {n}, param->tensor.scalar_type())
        .copy_(in_storage_order(param->tensor).narrow(0, first, n));
  });
}

Result<void> ResidentStrategy::write_state(const castor_param_state& state) {
  CASTOR_ASSIGN(ResidentParam* const param, param_of(state));
  if (state.n > 0 && (computes(param->tensor) ? state.master == nullptr : state.opaque == nullptr))
    return Error{ErrorKind::usage, "the state of parameter " + std::to_string(state.param) + " has no values"};
  param->n_updates = state.n_updates;
  return guard([&] {
    const at::NoGradGuard no_grad;
    const auto first = static_cast<std::int64_t>(state.first), n = static_cast<std::int64_t>(state.n);
    const auto write = [&](const at::Tensor& to, float* from) {
      if (from != nullptr && to.defined()) to.narrow(0, first, n).copy_(rounded(from, n, to.scalar_type()));
    };
    write(param->master, state.master);
    write(param->exp_avg, state.exp_avg);
    write(param->exp_avg_sq, state.exp_avg_sq);
    const at::Tensor weights = in_storage_order(param->tensor).narrow(0, first, n);
    const at::ScalarType dtype = param->tensor.scalar_type();
    weights.copy_(computes(param->tensor) ? rounded(state.master, n, dtype) : at::from_blob(state.opaque, {n}, dtype));
  });
}

/// The values of a gradient that `wanted` names. `gets_one`: the parameter has a gradient afterwards where all its
/// values are given. Errors: usage, where the parameter is not trained, lacks the values, or has no gradient.
Result<castor_values> ResidentStrategy::gradient_values(const castor_values& wanted, bool gets_one) const {
  if (wanted.param >= params_.size())
    return Error{ErrorKind::usage, "there is no parameter " + std::to_string(wanted.param)};
  const ResidentParam& param = params_[wanted.param];
  const std::string& name = adapter_.host().map().params[wanted.param].name;
  if (!param.tensor.requires_grad())
    return Error{ErrorKind::usage, "parameter " + name + " is frozen, so it has no gradient"};
  const auto numel = static_cast<std::uint64_t>(param.tensor.numel());
  CASTOR_ASSIGN(const castor_values values, fp32_values(wanted, numel, "gradients"));
  if (!param.grad.defined() && !(gets_one && values.n == numel)) return no_gradient(name, numel);
  return values;
}

Result<void> ResidentStrategy::read_gradient(const castor_values& wanted) {
  CASTOR_ASSIGN(const castor_values values, gradient_values(wanted, false));
  const ResidentParam& param = params_[wanted.param];
  const auto first = static_cast<std::int64_t>(values.first), n = static_cast<std::int64_t>(values.n);
  return guard(
      [&] { at::from_blob(values.data, {n}, at::kFloat).copy_(in_storage_order(param.grad).narrow(0, first, n)); });
}

/// A gradient with written values is fp32, like a sum of several.
Result<void> ResidentStrategy::write_gradient(const castor_values& wanted) {
  CASTOR_ASSIGN(const castor_values values, gradient_values(wanted, true));
  ResidentParam& param = params_[wanted.param];
  const auto first = static_cast<std::int64_t>(values.first), n = static_cast<std::int64_t>(values.n);
  return guard([&] {
    const at::NoGradGuard no_grad;
    const at::Tensor& like = param.grad.defined() ? param.grad : param.tensor;
    const at::Tensor sum = at::empty_strided(like.sizes(), like.strides(), like.options().dtype(at::kFloat));
    if (param.grad.defined()) sum.copy_(param.grad);
    in_storage_order(sum).narrow(0, first, n).copy_(at::from_blob(values.data, {n}, at::kFloat));
    param.grad = sum;
  });
}

/// Every parameter is bound, and up to date, all the time.
Result<void> ResidentStrategy::acquire(const castor_access& access) {
  CASTOR_TRY(OpenAccesses::check(access, params_.size()));
  for (std::uint32_t i = 0; access.mode == CASTOR_WRITE && i < access.n; ++i)
    if (!computes(params_[access.params[i]].tensor))
      return opaque_is_read_only(adapter_.host().map().params[access.params[i]].name);
  open_.add(access);
  return {};
}

Result<void> ResidentStrategy::release(const castor_access& access) {
  CASTOR_TRY(open_.find(access));
  open_.remove(access);
  if (access.mode != CASTOR_WRITE) return {};
  return guard([&] {
    const at::NoGradGuard no_grad;
    for (std::uint32_t i = 0; i < access.n; ++i) {
      ResidentParam& param = params_[access.params[i]];
      param.master.copy_(in_storage_order(param.tensor));
    }
  });
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

Result<std::unique_ptr<Strategy>> make_resident_strategy(std::shared_ptr<torch::nn::Module>, TorchAdapter& adapter,
                                                         const StateFormat& format) {
  CASTOR_ASSIGN(auto device, open_device(adapter.core_->host().torch_device()));
  CASTOR_ASSIGN(UpdateKernels kernels, UpdateKernels::make(*device));
  CASTOR_ASSIGN(auto norm, make_grad_norm(*device));
  auto strategy = std::make_unique<ResidentStrategy>(*adapter.core_, std::move(device), std::move(kernels),
                                                     std::move(norm), format);
  CASTOR_TRY(strategy->place());
  return std::unique_ptr<Strategy>(std::move(strategy));
}

}  // namespace castor
