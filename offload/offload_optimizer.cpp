// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/offload_optimizer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <castor/offload/model_chunks.h>

namespace castor {
namespace {

void widen_weights(const std::byte* weights, DType dtype, float* out, std::uint64_t n) {
  if (dtype == DType::f32) {
    std::memcpy(out, weights, n * 4);
    return;
  }
  const auto* bits = reinterpret_cast<const std::uint16_t*>(weights);
  std::transform(bits, bits + n, out, dtype == DType::bf16 ? bf16_to_float : f16_to_float);
}

}  // namespace

Result<std::unique_ptr<OffloadOptimizer>> OffloadOptimizer::make(Parts parts) {
  std::unique_ptr<OffloadOptimizer> optimizer(new OffloadOptimizer(std::move(parts)));
  const Parts& p = optimizer->parts_;
  for (std::uint32_t i = 0; i < optimizer->n_chunks(); ++i) {
    const ChunkShape& shape = p.layout.chunks[i];
    const std::string number = std::to_string(i);
    optimizer->payload_.push_back(
        p.chunks.add(ChunkKind::payload, shape.numel * size_bytes(shape.dtype), "parameters of chunk " + number));
    optimizer->state_.push_back(
        shape.trainable
            ? p.chunks.add(ChunkKind::state, shape.numel * kStateBytesPerElement, "optimizer states of chunk " + number)
            : p.chunks.add(ChunkKind::state, shape.numel * 4, "first values of chunk " + number));
  }
  CASTOR_ASSIGN(optimizer->gradients_, GradientStore::make({p.layout, p.chunks, p.mover, p.device, p.compute, p.down}));
  optimizer->host_adam_ = make_host_adam(p.n_update_threads);
  if (p.device.kind() != DeviceKind::cpu) {
    CASTOR_ASSIGN(optimizer->device_adam_, make_adam(p.device));
  }
  CASTOR_ASSIGN(optimizer->device_norm_, make_grad_norm(p.device));
  CASTOR_ASSIGN(optimizer->sums_,
                Buffer::allocate(p.device.host_memory(), (p.layout.tensors.size() + 1) * sizeof(double)));
  optimizer->n_updates_.assign(p.layout.tensors.size(), 0);
  return optimizer;
}

Result<void> OffloadOptimizer::adopt(Plan plan) {
  plan_ = std::move(plan);
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    if (parts_.layout.chunks[i].trainable) gradients_->set_tier(i, update_tier(i));
    parts_.mover.set_rest(payload_[i], plan_.payload_off_device[i] ? kAnywhere & ~only(Tier::device) : kAnywhere);
  }
  parts_.mover.forget_trace();
  return {};
}

float* OffloadOptimizer::state_part(std::byte* state, std::uint32_t i, StatePart part) const {
  return reinterpret_cast<float*>(state) + static_cast<std::uint64_t>(part) * parts_.layout.chunks[i].numel;
}

Result<void> OffloadOptimizer::initialise(const std::function<Result<void>(std::uint32_t, float*)>& fill) {
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    CASTOR_TRY(write_first_values(i, fill));
    CASTOR_TRY(send_home(i));
    for (const std::uint32_t tensor : parts_.layout.chunks[i].tensors) parts_.tensors.set(tensor, TensorState::hold);
    if (parts_.interrupted()) return Error{ErrorKind::interrupted, "interrupted while the parameters were initialised"};
  }
  parts_.mover.forget_trace();
  return {};
}

/// Fills the fp32 values on the host and rounds them into the payload.
Result<void> OffloadOptimizer::write_first_values(std::uint32_t i,
                                                  const std::function<Result<void>(std::uint32_t, float*)>& fill) {
  const ChunkShape& shape = parts_.layout.chunks[i];
  const std::array<Need, 2> needs = {Need{state_[i], Tier::host, Access::overwrite},
                                     Need{payload_[i], Tier::host, Access::overwrite}};
  CASTOR_TRY(parts_.mover.begin({MomentKind::update, i}, needs));
  std::byte* state = parts_.chunks.chunk(state_[i]).at(Tier::host).buffer.data();
  std::byte* payload = parts_.chunks.chunk(payload_[i]).at(Tier::host).buffer.data();
  std::memset(state, 0, parts_.chunks.chunk(state_[i]).n_bytes);
  Result<void> outcome;
  for (const std::uint32_t tensor : shape.tensors) {
    const TensorPlace& place = parts_.layout.tensors[tensor];
    float* master = state_part(state, i, kMaster) + place.offset;
    if (outcome.ok()) outcome = fill(tensor, master);
    round_weights(master, shape.dtype, payload + place.offset * size_bytes(shape.dtype), place.numel);
  }
  parts_.mover.end(needs);
  return outcome;
}

/// Sends the states where they live, so that the next chunk finds room on the host; a frozen chunk's were for its
/// weights only. Where there is nothing below the host, the weights go up while there is room for them: then their copy
/// on the host may go.
Result<void> OffloadOptimizer::send_home(std::uint32_t i) {
  if (!parts_.layout.chunks[i].trainable) {
    parts_.chunks.discard(state_[i]);
  } else if (plan_.states[i] == Tier::device) {
    CASTOR_TRY(parts_.mover.look(state_[i], Tier::device));
  } else if (plan_.states[i] == Tier::nvme) {
    CASTOR_TRY(parts_.mover.push_down(state_[i], Tier::host));
  }
  if (parts_.chunks.has_spill()) return {};
  const auto up = parts_.chunks.fetch(payload_[i], Tier::device);
  return up.ok() || up.error().kind == ErrorKind::does_not_fit ? Result<void>() : up.error();
}

Result<StepScale> OffloadOptimizer::measure(const StepOptions& options) {
  if (options.max_norm == 0 && options.loss_scale == 1) return StepScale();
  auto* sums = reinterpret_cast<double*>(sums_.data());
  std::fill_n(sums, parts_.layout.tensors.size(), 0.0);
  for (std::uint32_t i = 0; i < n_chunks(); ++i)
    if (parts_.layout.chunks[i].trainable && gradients_->any(i)) CASTOR_TRY(measure_chunk(i));
  CASTOR_TRY(parts_.compute.record().wait());
  std::vector<double> ordered;
  for (const std::uint32_t tensor : parts_.registration_order) ordered.push_back(sums[tensor]);
  return combine_norms(ordered.data(), ordered.size(), options.max_norm, options.loss_scale);
}

Result<void> OffloadOptimizer::measure_chunk(std::uint32_t i) {
  const Tier tier = gradients_->tier(i);
  const std::array<Need, 1> needs = {Need{gradients_->chunk(i), tier, Access::read}};
  CASTOR_TRY(parts_.mover.begin({MomentKind::norm, i}, needs));
  const std::byte* grads = parts_.chunks.chunk(needs[0].chunk).at(tier).buffer.data();
  const DType dtype = gradients_->dtype(i);
  GradNormKernel& kernel = tier == Tier::device ? *device_norm_ : *host_norm_;
  auto* sums = reinterpret_cast<double*>(sums_.data());
  Result<void> outcome;
  for (const std::uint32_t tensor : parts_.layout.chunks[i].tensors) {
    const TensorPlace& place = parts_.layout.tensors[tensor];
    if (!gradients_->has(tensor) || !outcome.ok()) continue;
    outcome = kernel.sum_of_squares(parts_.compute, grads + place.offset * size_bytes(dtype), dtype, place.numel,
                                    &sums[tensor]);
  }
  parts_.mover.end(needs);
  return outcome;
}

Result<StepScale> OffloadOptimizer::step(const StepOptions& options) {
  if (poisoned_)
    return Error{
        ErrorKind::failed,
        "an earlier step failed after some parameters were updated, so the model is between two steps; start again"};
  CASTOR_TRY(gradients_->intact());
  CASTOR_ASSIGN(const StepScale scale, measure(options));
  for (std::uint32_t i = 0; i < n_chunks() && !scale.skip; ++i) {
    if (!parts_.layout.chunks[i].trainable || !gradients_->any(i)) continue;
    if (parts_.interrupted()) return Error{ErrorKind::interrupted, "interrupted while the parameters were updated"};
    CASTOR_TRY(update_chunk(i, options, scale.grad_scale));
  }
  poisoned_ = false;
  finish_step();
  return scale;
}

Result<void> OffloadOptimizer::update_chunk(std::uint32_t i, const StepOptions& options, double grad_scale) {
  const Tier tier = update_tier(i);
  const Access weights = gradients_->complete(i) ? Access::overwrite : Access::update;
  const std::array<Need, 3> needs = {Need{state_[i], tier, Access::update},
                                     Need{gradients_->chunk(i), tier, Access::read}, Need{payload_[i], tier, weights}};
  CASTOR_TRY(parts_.mover.begin({MomentKind::update, i}, needs));
  poisoned_ = true;  // until the last chunk is done
  auto outcome = update_tensors(i, tier, options, grad_scale);
  parts_.mover.end(needs);
  CASTOR_TRY(outcome);
  gradients_->release(i);
  return plan_.states[i] == Tier::nvme ? parts_.mover.push_down(state_[i], Tier::host) : Result<void>();
}

Result<void> OffloadOptimizer::update_tensors(std::uint32_t i, Tier tier, const StepOptions& options,
                                              double grad_scale) {
  const Span span(&parts_.timeline, tier == Tier::device ? Lane::compute : Lane::host_update, payload_[i],
                  parts_.chunks.chunk(state_[i]).n_bytes);
  AdamKernel& kernel = tier == Tier::device && device_adam_ ? *device_adam_ : *host_adam_;
  for (const std::uint32_t tensor : parts_.layout.chunks[i].tensors) {
    if (!gradients_->has(tensor)) continue;
    const auto coefficients = adam_coefficients(options.adam, ++n_updates_[tensor], grad_scale);
    CASTOR_TRY(kernel.update(parts_.compute, coefficients, arrays(i, tensor, tier)));
  }
  return {};
}

AdamArrays OffloadOptimizer::arrays(std::uint32_t i, std::uint32_t tensor, Tier tier) const {
  const ChunkShape& shape = parts_.layout.chunks[i];
  const TensorPlace& place = parts_.layout.tensors[tensor];
  std::byte* state = parts_.chunks.chunk(state_[i]).at(tier).buffer.data();
  const DType grad_dtype = gradients_->dtype(i);
  AdamArrays arrays;
  arrays.master = state_part(state, i, kMaster) + place.offset;
  arrays.exp_avg = state_part(state, i, kExpAvg) + place.offset;
  arrays.exp_avg_sq = state_part(state, i, kExpAvgSq) + place.offset;
  arrays.grad =
      parts_.chunks.chunk(gradients_->chunk(i)).at(tier).buffer.data() + place.offset * size_bytes(grad_dtype);
  arrays.weight = parts_.chunks.chunk(payload_[i]).at(tier).buffer.data() + place.offset * size_bytes(shape.dtype);
  arrays.grad_dtype = grad_dtype;
  arrays.weight_dtype = shape.dtype;
  arrays.n = place.numel;
  return arrays;
}

void OffloadOptimizer::finish_step() {
  for (std::uint32_t tensor = 0; tensor < parts_.layout.tensors.size(); ++tensor)
    parts_.tensors.set(tensor, TensorState::hold);
  gradients_->clear();
  parts_.mover.end_iteration();
}

Result<void> OffloadOptimizer::read_master(std::uint32_t tensor, float* out) {
  const TensorPlace& place = parts_.layout.tensors.at(tensor);
  const ChunkShape& shape = parts_.layout.chunks[place.chunk];
  if (!shape.trainable) {
    CASTOR_ASSIGN(const BufferView weights, parts_.mover.look(payload_[place.chunk], Tier::host));
    widen_weights(weights.data + place.offset * size_bytes(shape.dtype), shape.dtype, out, place.numel);
    return {};
  }
  CASTOR_ASSIGN(const BufferView state, parts_.mover.look(state_[place.chunk], Tier::host));
  std::memcpy(out, state_part(state.data, place.chunk, kMaster) + place.offset, place.numel * 4);
  return {};
}

}  // namespace castor
