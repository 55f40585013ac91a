// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/offload_optimizer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "early_updates.h"
#include "host_norm.h"
#include "kept_chunks.h"
#include "norm_forecast.h"
#include "stream_forecast.h"
#include "team_directions.h"
#include <castor/rules/tile_states.h>
#include "tile_update.h"

namespace castor {
namespace {

/// From the first begin() of any thread until nobody holds it.
class SharedSpan {
 public:
  SharedSpan(Timeline& timeline, const SpanRecord& what) : timeline_(timeline), what_(what) {}
  ~SharedSpan() {
    what_.start_ns = start_ns_;
    what_.end_ns = timeline_.now_ns();
    if (what_.start_ns > 0) timeline_.record(what_);
  }
  SharedSpan(const SharedSpan&) = delete;
  SharedSpan& operator=(const SharedSpan&) = delete;

  void begin() {
    std::uint64_t not_begun = 0;
    if (start_ns_ == 0) start_ns_.compare_exchange_strong(not_begun, timeline_.now_ns());
  }

 private:
  Timeline& timeline_;
  SpanRecord what_;
  std::atomic<std::uint64_t> start_ns_ = 0;
};

}  // namespace

OffloadOptimizer::OffloadOptimizer(Parts parts)
    : parts_(std::move(parts)),
      early_(std::make_unique<EarlyUpdates>(parts_.layout)),
      kept_(std::make_unique<KeptChunks>(parts_.chunks)),
      norm_forecast_(std::make_unique<NormForecast>()) {}

OffloadOptimizer::~OffloadOptimizer() {
  while (!speculative_.empty()) forget_speculation(speculative_.begin()->first);
  for (const auto& updates : {updates_, taken_back_})
    for (const Event& update : updates) (void)update.wait();
}

Result<std::unique_ptr<OffloadOptimizer>> OffloadOptimizer::make(Parts parts) {
  std::unique_ptr<OffloadOptimizer> optimizer(new OffloadOptimizer(std::move(parts)));
  const Parts& p = optimizer->parts_;
  for (std::uint32_t i = 0; i < optimizer->n_chunks(); ++i) {
    const ChunkShape& shape = p.layout.chunks[i];
    optimizer->payload_.push_back(p.chunks.add(ChunkKind::payload, shape.numel * size_bytes(shape.dtype),
                                               "parameters of chunk " + std::to_string(i)));
    auto& states = optimizer->state_.emplace_back();
    for (std::uint32_t tile = 0; tile < shape.n_tiles() && shape.trainable; ++tile)
      states.push_back(optimizer->add_states(i, tile));
  }
  CASTOR_ASSIGN(optimizer->gradients_,
                GradientStore::make({p.layout, p.chunks, p.mover, p.device, p.compute, p.down, p.team}));
  CASTOR_ASSIGN(UpdateKernels device_kernels, UpdateKernels::make(p.device));
  optimizer->device_kernels_.emplace(std::move(device_kernels));
  CASTOR_ASSIGN(optimizer->device_norm_, make_grad_norm(p.device));
  CASTOR_ASSIGN(optimizer->sums_,
                Buffer::allocate(p.device.host_memory(), (p.layout.tensors.size() + 1) * sizeof(double)));
  optimizer->pending_.assign(optimizer->n_chunks(), false);
  optimizer->n_updates_.assign(p.layout.tensors.size(), 0);
  optimizer->measured_.assign(p.layout.tensors.size(), false);
  optimizer->host_trust_.assign(p.layout.tensors.size(), 1);
  optimizer->registered_.assign(p.layout.tensors.size(), 0);
  for (std::uint32_t id = 0; id < p.registration_order.size(); ++id)
    optimizer->registered_[p.registration_order[id]] = id;
  return optimizer;
}

ChunkId OffloadOptimizer::add_states(std::uint32_t i, std::uint32_t tile) {
  const ChunkShape& shape = parts_.layout.chunks[i];
  const std::uint64_t numel = shape.tile(tile).numel;
  std::string whose = " of chunk " + std::to_string(i);
  if (shape.n_tiles() > 1) whose += ", part " + std::to_string(tile + 1) + " of " + std::to_string(shape.n_tiles());
  return parts_.chunks.add(ChunkKind::state, numel * parts_.format.bytes_per_element(shape.dtype),
                           "optimizer states" + whose);
}

Result<void> OffloadOptimizer::adopt(Plan plan) {
  CASTOR_TRY(make_pending());
  plan_ = std::move(plan);
  for (std::uint32_t i = 0; i < n_chunks(); ++i) {
    if (parts_.layout.chunks[i].trainable) gradients_->set_tier(i, update_tier(i));
    parts_.mover.set_rest(payload_[i], plan_.payload_off_device[i] ? kAnywhere & ~only(Tier::device) : kAnywhere);
    for (const ChunkId tile : state_[i]) parts_.mover.set_rest(tile, rest_of_states(plan_.states[i]));
  }
  parts_.mover.take_way(next_way());
  parts_.mover.forget_trace();
  return {};
}

AccessTrace OffloadOptimizer::forecast(const AccessTrace& trace) const {
  std::vector<UpdatedChunk> streamed;
  for (std::uint32_t i = 0; i < n_chunks(); ++i)
    if (plan_.streamed[i] && !state_[i].empty())
      streamed.push_back({i, payload_[i], parts_.chunks.chunk(state_[i].front()).n_bytes, gradients_->chunks(i),
                          !looks_at_weights(i, announced_)});
  return with_streams(trace, streamed, wants_norm_);
}

std::vector<TilePart> OffloadOptimizer::parts_of(std::uint32_t i, std::uint32_t tile) const {
  return parts_of_tile(parts_.layout, i, tile);
}

Result<StepScale> OffloadOptimizer::measure(const StepOptions& options) {
  wants_norm_ = options.needs_norm();
  if (!wants_norm_) return StepScale();
  std::vector<HostNorm> on_host;
  for (std::uint32_t i = 0; i < n_chunks(); ++i)
    if (parts_.layout.chunks[i].trainable && !measured(i)) CASTOR_TRY(measure_chunk(i, on_host));
  for (HostNorm& norm : on_host) CASTOR_TRY(norm.finish());
  CASTOR_TRY(parts_.mover.join({MomentKind::norm, 0}));
  std::vector<double> ordered;
  for (const std::uint32_t tensor : parts_.registration_order)
    ordered.push_back(gradients_->has(tensor) ? sums()[tensor] : 0);
  return combine_norms(ordered.data(), ordered.size(), options.max_norm, options.loss_scale);
}

/// All gradients of the chunk that there are.
bool OffloadOptimizer::measured(std::uint32_t i) const {
  const auto& tensors = parts_.layout.chunks[i].tensors;
  return std::all_of(tensors.begin(), tensors.end(),
                     [this](std::uint32_t tensor) { return measured_[tensor] || !gradients_->has(tensor); });
}

/// On the host by the team, beside the thread.
Result<void> OffloadOptimizer::measure_chunk(std::uint32_t i, std::vector<HostNorm>& on_host) {
  CASTOR_TRY(gradients_->settle(i));
  const Tier tier = gradients_->tier(i);
  const std::array<Need, 1> needs = {Need{gradients_->chunk(i), tier, Access::read}};
  Beside others{parts_.team};
  CASTOR_TRY(parts_.mover.begin({MomentKind::norm, i}, needs, tier == Tier::host ? &others : nullptr));
  const std::byte* grads = parts_.chunks.chunk(needs[0].chunk).at(tier).buffer.data();
  const DType dtype = gradients_->dtype(i);
  HostNorm norm(dtype);
  Result<void> outcome;
  for (const std::uint32_t tensor : parts_.layout.chunks[i].tensors) {
    const TensorPlace& place = parts_.layout.tensors[tensor];
    if (!gradients_->has(tensor) || measured_[tensor] || !outcome.ok()) continue;
    const std::byte* const grad = grads + place.offset * size_bytes(dtype);
    if (tier == Tier::device)
      outcome = device_norm_->sum_of_squares(parts_.compute, grad, dtype, place.numel, &sums()[tensor]);
    else
      norm.add(grad, place.numel, &sums()[tensor]);
  }
  if (tier == Tier::host) norm.start(parts_.team, i, std::move(others.after));
  parts_.mover.end(needs, norm.done());
  on_host.push_back(std::move(norm));
  return outcome;
}

/// That no earlier step ended between two chunks, as far as that is known: nobody waits for an update here.
Result<void> OffloadOptimizer::whole() {
  const auto ended = [this](const Event& update) {
    if (!update.ready()) return false;
    if (auto outcome = update.wait(); failed_update_.ok()) failed_update_ = std::move(outcome);
    return true;
  };
  std::erase_if(updates_, ended);
  if (!poisoned_ && failed_update_.ok()) return {};
  return Error{
      ErrorKind::failed,
      "an earlier step failed after some parameters were updated, so the model is between two steps; start again" +
          (failed_update_.ok() ? std::string() : " (" + failed_update_.error().message + ")")};
}

Result<StepScale> OffloadOptimizer::step(const StepOptions& options) {
  CASTOR_TRY(make_all_pending());
  CASTOR_TRY(whole());
  if (begun_ && options != announced_)
    return Error{
        ErrorKind::usage,
        "step is called with other values than were announced, with which some parameters are updated already"};
  const bool as_announced = options == announced_ && gradients_->intact().ok();
  if (!as_announced) CASTOR_TRY(take_back_all());
  if (auto intact = gradients_->intact(); !intact.ok()) return poisoned_ = begun_, intact.error();
  CASTOR_ASSIGN(const StepScale scale, measure(options));
  CASTOR_ASSIGN(const bool as_expected, settle_speculation(options, scale));
  if (!scale.skip) {
    if (auto updated = update_rest(options, scale.grad_scale); !updated.ok())
      return poisoned_ = begun_, updated.error();
  }
  finish_step(as_expected);
  return scale;
}

Result<void> OffloadOptimizer::update_chunk(std::uint32_t i, const StepOptions& options, double grad_scale) {
  CASTOR_TRY(update_tiles(i, options, grad_scale));
  gradients_->release(i);
  return {};
}

Result<void> OffloadOptimizer::update_tiles(std::uint32_t i, const StepOptions& options, double grad_scale) {
  CASTOR_TRY(gradients_->settle(i));
  TeamDirections directions;
  if (options.measures_direction()) CASTOR_TRY(measure_cut_tensors(i, options, grad_scale, directions));
  for (std::uint32_t tile = 0; tile < parts_.layout.chunks[i].n_tiles(); ++tile)
    CASTOR_TRY(update_tile(i, tile, options, grad_scale, directions));
  return {};
}

/// Weights that are all replaced, and by nothing that follows from the old ones, are not looked at.
std::array<Need, 3> OffloadOptimizer::update_needs(std::uint32_t i, std::uint32_t tile,
                                                   const StepOptions& options) const {
  const bool all_new = gradients_->complete(i) && tile == 0 && !speculated(i) && !looks_at_weights(i, options);
  const Tier tier = update_tier(i);
  return {Need{state_[i][tile], tier, Access::update}, Need{gradients_->chunk(i), tier, Access::read},
          Need{payload_[i], tier, all_new ? Access::overwrite : Access::update}};
}

/// What its new weights are follows from the old ones too.
bool OffloadOptimizer::looks_at_weights(std::uint32_t i, const StepOptions& options) const {
  const bool of_weights = options.needs_trust() && !options.measures_direction();
  return of_weights || parts_.format.splits(parts_.layout.chunks[i].dtype);
}

Result<void> OffloadOptimizer::update_tile(std::uint32_t i, std::uint32_t tile, const StepOptions& options,
                                           double grad_scale, TeamDirections& directions) {
  const auto needs = update_needs(i, tile, options);
  const bool speculative = speculated(i), beside = parts_.overlap && update_tier(i) == Tier::host;
  Beside others{parts_.team};
  CASTOR_TRY(parts_.mover.begin({MomentKind::update, i}, needs, beside ? &others : nullptr));
  begun_ = begun_ || !speculative;
  if (auto measured = measure_tensors(i, tile, options, grad_scale, directions, others.after); !measured.ok())
    return parts_.mover.end(needs), measured;
  if (speculative) keep_old(i, tile);
  TileUpdate update = update_of(i, tile, options, grad_scale);
  if (beside) {
    Event updated = start(i, tile, std::move(update), std::move(others.after));
    Checksums checksums = start_checksums(i, tile, updated);
    (speculative ? speculative_[i].updates : updates_).push_back(updated);
    if (speculative) read_old_until(i, tile, updated);
    parts_.mover.end(needs, updated);
    parts_.chunks.checked(state_[i][tile], std::move(checksums));
    return {};
  }
  const auto outcome = updates_on_gpu(i) ? update_on_gpu(i, tile, update)
                                         : start(i, tile, std::move(update), std::move(others.after)).wait();
  parts_.mover.end(needs);
  CASTOR_TRY(outcome);
  return plan_.states[i] == Tier::nvme ? parts_.mover.push_down(state_[i][tile], update_tier(i)) : Result<void>();
}

/// What the rule must know of the tile's tensors first; the update begins `after` that too.
Result<void> OffloadOptimizer::measure_tensors(std::uint32_t i, std::uint32_t tile, const StepOptions& options,
                                               double grad_scale, TeamDirections& directions,
                                               std::vector<Event>& after) {
  if (options.measures_direction())
    CASTOR_TRY(
        measure_directions(i, tile, measured_parts(i, tile, /*cut=*/false), options, grad_scale, directions, after));
  else if (tile == 0 && options.needs_trust())
    CASTOR_TRY(measure_trust(i, options, grad_scale, after));
  if (directions.done().state() != nullptr) after.push_back(directions.done());
  return {};
}

/// Of the tensor's `t`-th update.
UpdateCoefficients OffloadOptimizer::coefficients(std::uint32_t tensor, std::uint64_t t, const StepOptions& options,
                                                  double grad_scale) const {
  const UpdateNumber number = {t, registered_[tensor], parts_.format.rounding_seed, trust_of(tensor)};
  return update_coefficients(options.of(tensor), number, grad_scale);
}

/// What updates the tile, where its chunks are now. A tensor's counter goes up with its first part.
TileUpdate OffloadOptimizer::update_of(std::uint32_t i, std::uint32_t tile, const StepOptions& options,
                                       double grad_scale) {
  TileUpdate update;
  for (const Part& part : parts_of(i, tile)) {
    if (!gradients_->has(part.tensor)) continue;
    std::uint64_t& n_updates = n_updates_[part.tensor];
    if (part.in_tensor == 0) ++n_updates;
    update.add(coefficients(part.tensor, n_updates, options, grad_scale), arrays(i, tile, part), part.in_tile);
  }
  return update;
}

/// The team updates the tile, the sooner the sooner the next forward pass needs it.
Event OffloadOptimizer::start(std::uint32_t i, std::uint32_t tile, TileUpdate update, std::vector<Event> after) {
  HostTeam::Job job;
  job.urgency = i;
  job.after = std::move(after);
  job.n_parts = update.n_parts();
  const std::uint64_t n_bytes = parts_.chunks.chunk(state_[i][tile]).n_bytes;
  const auto span =  // owners: this, and the job while it runs
      std::make_shared<SharedSpan>(parts_.timeline, SpanRecord{Lane::host_update, payload_[i], 0, 0, n_bytes});
  const auto vain = speculated(i) ? speculative_.at(i).vain : nullptr;
  job.run = [this, span, vain, update = std::move(update)](std::uint32_t part) -> Result<void> {
    if (vain && *vain) return {};
    span->begin();
    return update.run_part(host_kernels_, parts_.compute, part);
  };
  return parts_.team.add(std::move(job));
}

/// States on their way to a drive get the checksums of their blocks by the team as well, right after their update, while they
/// are in its caches; then `updated` is when these are known. Null where there are none, or the drive's side shall make them.
Checksums OffloadOptimizer::start_checksums(std::uint32_t i, std::uint32_t tile, Event& updated) {
  const Chunk& states = parts_.chunks.chunk(state_[i][tile]);
  const SpillStore* const spill = plan_.states[i] == Tier::nvme ? parts_.chunks.below().spill() : nullptr;
  auto ends = spill ? spill->block_ends(states.n_bytes) : std::vector<std::uint64_t>();
  if (ends.empty()) return nullptr;
  const auto checksums = std::make_shared<std::vector<std::uint64_t>>(ends.size());  // owners: as Checksums
  HostTeam::Job job;
  job.urgency = i;
  job.after = {updated};
  job.n_parts = static_cast<std::uint32_t>(ends.size());
  const BufferView bytes = states.at(Tier::host).buffer.view();
  job.run = [spill, bytes, checksums, ends = std::move(ends)](std::uint32_t block) -> Result<void> {
    const std::uint64_t begin = block == 0 ? 0 : ends[block - 1];
    (*checksums)[block] = spill->checksum(bytes.part(begin, ends[block] - begin));
    return {};
  };
  updated = parts_.team.add(std::move(job));
  return checksums;
}

Result<void> OffloadOptimizer::update_on_gpu(std::uint32_t i, std::uint32_t tile, const TileUpdate& update) {
  auto begun = parts_.computed.begin();
  auto outcome = update.run(*device_kernels_, parts_.compute);
  const std::uint64_t n_bytes = parts_.chunks.chunk(state_[i][tile]).n_bytes;
  parts_.computed.end(std::move(begun), {Lane::compute, payload_[i], 0, 0, n_bytes, Phase::update});
  return outcome;
}

AdamArrays OffloadOptimizer::arrays(std::uint32_t i, std::uint32_t tile, const Part& part) const {
  const Tier tier = update_tier(i);
  const auto data = [&](ChunkId id) { return parts_.chunks.chunk(id).at(tier).buffer.data(); };
  AdamArrays arrays;
  states_at(i, tile, data(state_[i][tile])).point(arrays, part.in_tile);
  arrays.old_states = kept_->bytes_to_old(state_[i][tile]);
  arrays.old_weight = kept_->bytes_to_old(payload_[i]);
  arrays.grad_dtype = gradients_->dtype(i);
  arrays.grad = data(gradients_->chunk(i)) + part.in_chunk * size_bytes(arrays.grad_dtype);
  arrays.weight_dtype = parts_.layout.chunks[i].dtype;
  if (std::byte* const weights = data(payload_[i]))  // a measure of whole masters needs none
    arrays.weight = weights + part.in_chunk * size_bytes(arrays.weight_dtype);
  arrays.n = part.numel;
  arrays.first = static_cast<std::uint32_t>(part.in_tensor);
  return arrays;
}

TileStates OffloadOptimizer::states_at(std::uint32_t i, std::uint32_t tile, std::byte* data) const {
  const ChunkShape& shape = parts_.layout.chunks[i];
  return {data, shape.tile(tile).numel, shape.dtype, parts_.format};
}

void OffloadOptimizer::finish_step(bool as_expected) {
  for (std::uint32_t tensor = 0; tensor < parts_.layout.tensors.size(); ++tensor)
    parts_.tensors.set(tensor, TensorState::hold);
  for (std::uint32_t i = 0; i < n_chunks(); ++i)
    if (parts_.layout.chunks[i].trainable && !pending_[i]) gradients_->clear(i);
  gradients_->end_step();
  early_->end_step();
  begun_ = false;
  as_expected ? parts_.mover.end_iteration() : parts_.mover.break_off();
  parts_.mover.take_way(next_way());
}

}  // namespace castor
