// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/offload_optimizer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include <castor/offload/model_chunks.h>

#include "early_updates.h"

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

OffloadOptimizer::OffloadOptimizer(Parts parts)
    : parts_(std::move(parts)), early_(std::make_unique<EarlyUpdates>(parts_.layout)) {}

OffloadOptimizer::~OffloadOptimizer() { (void)last_update_.wait(); }

Result<std::unique_ptr<OffloadOptimizer>> OffloadOptimizer::make(Parts parts) {
  std::unique_ptr<OffloadOptimizer> optimizer(new OffloadOptimizer(std::move(parts)));
  const Parts& p = optimizer->parts_;
  for (std::uint32_t i = 0; i < optimizer->n_chunks(); ++i) {
    const ChunkShape& shape = p.layout.chunks[i];
    optimizer->payload_.push_back(p.chunks.add(ChunkKind::payload, shape.numel * size_bytes(shape.dtype),
                                               "parameters of chunk " + std::to_string(i)));
    auto& states = optimizer->state_.emplace_back();
    for (std::uint32_t tile = 0; tile < shape.n_tiles(); ++tile) states.push_back(optimizer->add_states(i, tile));
  }
  CASTOR_ASSIGN(optimizer->gradients_, GradientStore::make({p.layout, p.chunks, p.mover, p.device, p.compute, p.down}));
  optimizer->host_adam_ = make_host_adam(p.n_update_threads);
  if (p.device.kind() == DeviceKind::cpu) {
    optimizer->device_adam_ = make_host_adam(p.n_update_threads);
  } else {
    CASTOR_ASSIGN(optimizer->device_adam_, make_adam(p.device));
  }
  CASTOR_ASSIGN(optimizer->device_norm_, make_grad_norm(p.device));
  CASTOR_ASSIGN(optimizer->sums_,
                Buffer::allocate(p.device.host_memory(), (p.layout.tensors.size() + 1) * sizeof(double)));
  optimizer->n_updates_.assign(p.layout.tensors.size(), 0);
  return optimizer;
}

ChunkId OffloadOptimizer::add_states(std::uint32_t i, std::uint32_t tile) {
  const ChunkShape& shape = parts_.layout.chunks[i];
  const std::uint64_t numel = shape.tile(tile).numel;
  std::string whose = " of chunk " + std::to_string(i);
  if (shape.n_tiles() > 1) whose += ", part " + std::to_string(tile + 1) + " of " + std::to_string(shape.n_tiles());
  if (!shape.trainable) return parts_.chunks.add(ChunkKind::state, numel * 4, "first values" + whose);
  return parts_.chunks.add(ChunkKind::state, numel * kStateBytesPerElement, "optimizer states" + whose);
}

Result<void> OffloadOptimizer::adopt(Plan plan) {
  plan_ = std::move(plan);
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    if (parts_.layout.chunks[i].trainable) gradients_->set_tier(i, update_tier(i));
    parts_.mover.set_rest(payload_[i], plan_.payload_off_device[i] ? kAnywhere & ~only(Tier::device) : kAnywhere);
    for (const ChunkId tile : state_[i]) parts_.mover.set_rest(tile, rest_of_states(plan_.states[i]));
  }
  parts_.mover.forget_trace();
  return {};
}

float* OffloadOptimizer::state_part(std::byte* state, std::uint32_t i, std::uint32_t tile, StatePart part) const {
  return reinterpret_cast<float*>(state) + static_cast<std::uint64_t>(part) * parts_.layout.chunks[i].tile(tile).numel;
}

std::vector<OffloadOptimizer::Part> OffloadOptimizer::parts_of(std::uint32_t i, std::uint32_t tile) const {
  const ChunkShape& shape = parts_.layout.chunks[i];
  const auto [first, numel] = shape.tile(tile);
  std::vector<Part> parts;
  for (const std::uint32_t tensor : shape.tensors) {
    const TensorPlace& place = parts_.layout.tensors[tensor];
    const std::uint64_t begin = std::max(place.offset, first),
                        end = std::min(place.offset + place.numel, first + numel);
    if (begin < end) parts.push_back({tensor, end - begin, begin - place.offset, begin - first, begin});
  }
  return parts;
}

Result<void> OffloadOptimizer::initialise(const Fill& fill) {
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    for (std::uint32_t tile = 0; tile < parts_.layout.chunks[i].n_tiles(); ++tile) {
      CASTOR_TRY(write_first_values(i, tile, fill));
      CASTOR_TRY(send_states_home(i, tile));
    }
    CASTOR_TRY(send_payload_up(i));
    for (const std::uint32_t tensor : parts_.layout.chunks[i].tensors) parts_.tensors.set(tensor, TensorState::hold);
    if (parts_.interrupted()) return Error{ErrorKind::interrupted, "interrupted while the parameters were initialised"};
  }
  parts_.mover.forget_trace();
  return {};
}

/// Fills the fp32 values on the host and rounds them into the payload.
Result<void> OffloadOptimizer::write_first_values(std::uint32_t i, std::uint32_t tile, const Fill& fill) {
  const ChunkShape& shape = parts_.layout.chunks[i];
  const ChunkId state_chunk = state_[i][tile];
  const std::array<Need, 2> needs = {Need{state_chunk, Tier::host, Access::overwrite},
                                     Need{payload_[i], Tier::host, tile == 0 ? Access::overwrite : Access::update}};
  CASTOR_TRY(parts_.mover.begin({MomentKind::update, i}, needs));
  std::byte* state = parts_.chunks.chunk(state_chunk).at(Tier::host).buffer.data();
  std::byte* payload = parts_.chunks.chunk(payload_[i]).at(Tier::host).buffer.data();
  std::memset(state, 0, parts_.chunks.chunk(state_chunk).n_bytes);
  Result<void> outcome;
  for (const Part& part : parts_of(i, tile)) {
    float* master = state_part(state, i, tile, kMaster) + part.in_tile;
    if (outcome.ok()) outcome = fill(part.tensor, part.in_tensor, {master, part.numel});
    round_weights(master, shape.dtype, payload + part.in_chunk * size_bytes(shape.dtype), part.numel);
  }
  parts_.mover.end(needs);
  return outcome;
}

/// So that the next ones find room on the host; a frozen chunk's were for its weights only.
Result<void> OffloadOptimizer::send_states_home(std::uint32_t i, std::uint32_t tile) {
  if (!parts_.layout.chunks[i].trainable) {
    parts_.chunks.discard(state_[i][tile]);
  } else if (plan_.states[i] == Tier::device) {
    CASTOR_TRY(parts_.mover.look(state_[i][tile], Tier::device));
  } else if (plan_.states[i] == Tier::nvme) {
    return parts_.mover.push_down(state_[i][tile], Tier::host);
  }
  return {};
}

/// Where there is nothing below the host and room above: then their copy on the host may go.
Result<void> OffloadOptimizer::send_payload_up(std::uint32_t i) {
  if (parts_.chunks.has_spill()) return {};
  const auto up = parts_.chunks.fetch(payload_[i], Tier::device);
  return up.ok() || up.error().kind == ErrorKind::does_not_fit ? Result<void>() : up.error();
}

Result<StepScale> OffloadOptimizer::measure(const StepOptions& options) {
  if (!options.needs_norm()) return StepScale();
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

/// That no earlier step ended between two chunks.
Result<void> OffloadOptimizer::whole() const {
  const auto ended = last_update_.wait();
  if (!poisoned_ && ended.ok()) return {};
  return Error{
      ErrorKind::failed,
      "an earlier step failed after some parameters were updated, so the model is between two steps; start again" +
          (ended.ok() ? std::string() : " (" + ended.error().message + ")")};
}

Result<StepScale> OffloadOptimizer::step(const StepOptions& options) {
  CASTOR_TRY(whole());
  if (begun_ && options != announced_)
    return Error{
        ErrorKind::usage,
        "step is called with other values than were announced, with which some parameters are updated already"};
  if (auto intact = gradients_->intact(); !intact.ok()) return poisoned_ = begun_, intact.error();
  CASTOR_ASSIGN(const StepScale scale, measure(options));
  if (!scale.skip) {
    if (auto updated = update_rest(options, scale.grad_scale); !updated.ok())
      return poisoned_ = begun_, updated.error();
  }
  finish_step();
  return scale;
}

/// What was not updated early.
Result<void> OffloadOptimizer::update_rest(const StepOptions& options, double grad_scale) {
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    if (!parts_.layout.chunks[i].trainable || !gradients_->any(i) || early_->updated(i)) continue;
    if (parts_.interrupted()) return Error{ErrorKind::interrupted, "interrupted while the parameters were updated"};
    CASTOR_TRY(update_chunk(i, options, grad_scale));
  }
  return {};
}

Result<void> OffloadOptimizer::announce(const StepOptions& options) {
  CASTOR_TRY(whole());
  if (begun_) return poisoned_ = true, whole().error();
  if (parts_.updates == nullptr) return {};
  announced_ = options;
  early_->announce();
  return {};
}

Error OffloadOptimizer::broken_promise(std::uint32_t i, const std::string& what) {
  poisoned_ = true;
  return {ErrorKind::failed,
          what + " " + parts_.chunks.chunk(payload_[i]).label +
              " after its update, which came as early as the step before allowed; the model goes another "
              "way in every step: set overlap_updates=false"};
}

Result<void> OffloadOptimizer::add_gradient(std::uint32_t tensor, ArrivedGradient gradient) {
  const std::uint32_t i = parts_.layout.tensors.at(tensor).chunk;
  if (early_->updated(i)) {
    gradient.free();
    return broken_promise(i, "a gradient came for");
  }
  CASTOR_TRY(gradients_->add(tensor, std::move(gradient)));
  if (early_->announced()) early_->landed(tensor);
  return {};
}

Result<void> OffloadOptimizer::use(std::uint32_t i) {
  if (early_->updated(i)) return broken_promise(i, "a unit needs");
  if (early_->announced()) early_->used(i);
  return {};
}

Result<void> OffloadOptimizer::update_early() {
  if (announced_.needs_norm()) return {};
  for (const std::uint32_t i : early_->ready()) {
    if (update_tier(i) != Tier::host || parts_.chunks.chunk(payload_[i]).pinned()) continue;
    if (auto updated = update_chunk(i, announced_, StepScale().grad_scale); !updated.ok())
      return poisoned_ = begun_, updated;
    early_->set_updated(i);
  }
  return {};
}

Result<void> OffloadOptimizer::update_chunk(std::uint32_t i, const StepOptions& options, double grad_scale) {
  for (std::uint32_t tile = 0; tile < parts_.layout.chunks[i].n_tiles(); ++tile)
    CASTOR_TRY(update_tile(i, tile, options, grad_scale));
  gradients_->release(i);
  return {};
}

Result<void> OffloadOptimizer::update_tile(std::uint32_t i, std::uint32_t tile, const StepOptions& options,
                                           double grad_scale) {
  const Tier tier = update_tier(i);
  const Access weights = gradients_->complete(i) && tile == 0 ? Access::overwrite : Access::update;
  const std::array<Need, 3> needs = {Need{state_[i][tile], tier, Access::update},
                                     Need{gradients_->chunk(i), tier, Access::read}, Need{payload_[i], tier, weights}};
  HostLane* const lane = tier == Tier::host ? parts_.updates : nullptr;
  CASTOR_TRY(parts_.mover.begin({MomentKind::update, i}, needs, lane));
  begun_ = true;
  const HostLane::Task update = update_of(i, tile, options, grad_scale);
  if (lane != nullptr) {
    last_update_ = lane->run(update);
    parts_.mover.end(needs, last_update_);
    return {};
  }
  const auto outcome = update();
  parts_.mover.end(needs);
  CASTOR_TRY(outcome);
  return plan_.states[i] == Tier::nvme ? parts_.mover.push_down(state_[i][tile], Tier::host) : Result<void>();
}

/// What updates the tile, where its chunks are now. A tensor's counter goes up with its first part.
HostLane::Task OffloadOptimizer::update_of(std::uint32_t i, std::uint32_t tile, const StepOptions& options,
                                           double grad_scale) {
  std::vector<std::pair<AdamCoefficients, AdamArrays>> updates;
  for (const Part& part : parts_of(i, tile)) {
    if (!gradients_->has(part.tensor)) continue;
    std::uint64_t& n_updates = n_updates_[part.tensor];
    if (part.in_tensor == 0) ++n_updates;
    updates.emplace_back(adam_coefficients(options.adam, n_updates, grad_scale), arrays(i, tile, part));
  }
  const bool on_device = update_tier(i) == Tier::device;
  AdamKernel& kernel = on_device ? *device_adam_ : *host_adam_;
  return [this, &kernel, lane = on_device ? Lane::compute : Lane::host_update, id = payload_[i],
          n_bytes = parts_.chunks.chunk(state_[i][tile]).n_bytes, updates = std::move(updates)]() -> Result<void> {
    const Span span(&parts_.timeline, lane, id, n_bytes);
    for (const auto& [coefficients, arrays] : updates) CASTOR_TRY(kernel.update(parts_.compute, coefficients, arrays));
    return {};
  };
}

AdamArrays OffloadOptimizer::arrays(std::uint32_t i, std::uint32_t tile, const Part& part) const {
  const Tier tier = update_tier(i);
  const auto data = [&](ChunkId id) { return parts_.chunks.chunk(id).at(tier).buffer.data(); };
  const auto state = [&](StatePart which) { return state_part(data(state_[i][tile]), i, tile, which) + part.in_tile; };
  AdamArrays arrays;
  arrays.master = state(kMaster);
  arrays.exp_avg = state(kExpAvg);
  arrays.exp_avg_sq = state(kExpAvgSq);
  arrays.grad_dtype = gradients_->dtype(i);
  arrays.grad = data(gradients_->chunk(i)) + part.in_chunk * size_bytes(arrays.grad_dtype);
  arrays.weight_dtype = parts_.layout.chunks[i].dtype;
  arrays.weight = data(payload_[i]) + part.in_chunk * size_bytes(arrays.weight_dtype);
  arrays.n = part.numel;
  return arrays;
}

void OffloadOptimizer::finish_step() {
  for (std::uint32_t tensor = 0; tensor < parts_.layout.tensors.size(); ++tensor)
    parts_.tensors.set(tensor, TensorState::hold);
  gradients_->clear();
  early_->end_step();
  begun_ = false;
  parts_.mover.end_iteration();
}

Result<void> OffloadOptimizer::read_master(std::uint32_t tensor, float* out) {
  const TensorPlace& place = parts_.layout.tensors.at(tensor);
  const ChunkShape& shape = parts_.layout.chunks[place.chunk];
  if (early_->updated(place.chunk))
    return Error{ErrorKind::usage, "parameters were asked for between their early update and the end of their step"};
  if (!shape.trainable) {
    CASTOR_ASSIGN(const BufferView weights, parts_.mover.look(payload_[place.chunk], Tier::host));
    widen_weights(weights.data + place.offset * size_bytes(shape.dtype), shape.dtype, out, place.numel);
    return {};
  }
  for (std::uint32_t tile = 0; tile < shape.n_tiles(); ++tile)
    for (const Part& part : parts_of(place.chunk, tile)) {
      if (part.tensor != tensor) continue;
      CASTOR_ASSIGN(const BufferView state, parts_.mover.look(state_[place.chunk][tile], Tier::host));
      const float* master = state_part(state.data, place.chunk, tile, kMaster) + part.in_tile;
      std::memcpy(out + part.in_tensor, master, part.numel * 4);
    }
  return {};
}

}  // namespace castor
