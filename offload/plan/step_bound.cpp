// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/step_bound.h>

#include <castor/memory/timeline.h>

#include <algorithm>
#include <optional>

namespace castor {
namespace {

/// The first chunk of weights that the iteration uses.
std::optional<ChunkId> first_weights(const AccessTrace& trace) {
  for (std::uint64_t m = 0; m < trace.n_moments(); ++m)
    if (trace.moment(m).kind == MomentKind::forward && !trace.needs(m).empty()) return trace.needs(m).front().chunk;
  return {};
}

/// The updates beside the thread that change one chunk of weights: their number, and the time of the first.
struct Tiles {
  std::uint64_t n = 0;
  double first_s = 0;
};

Tiles tiles_of(ChunkId weights, const AccessTrace& trace, const MomentSeconds& seconds) {
  Tiles tiles;
  for (std::uint64_t m = 0; m < trace.n_moments(); ++m) {
    const auto changes = [weights](const Need& need) { return need.chunk == weights && need.access != Access::read; };
    const auto needs = trace.needs(m);
    if (!trace.moment(m).beside || std::none_of(needs.begin(), needs.end(), changes)) continue;
    if (tiles.n++ == 0) tiles.first_s = seconds.compute.at(m);
  }
  return tiles;
}

/// Gradients have the bytes of their weights.
double first_tile_s(const AccessTrace& trace, const MomentSeconds& seconds,
                    const IndexedVector<ChunkId, std::uint64_t>& n_bytes, const LinkCosts& costs) {
  const auto weights = first_weights(trace);
  if (!weights) return 0;
  const Tiles tiles = tiles_of(*weights, trace, seconds);
  if (tiles.n == 0) return 0;
  const double tile_bytes = static_cast<double>(n_bytes[*weights]) / static_cast<double>(tiles.n);
  return tile_bytes * (costs.d2h + costs.h2d) + tiles.first_s;
}

}  // namespace

PassSeconds pass_seconds(const AccessTrace& trace, const MomentSeconds& seconds) {
  PassSeconds found;
  bool goes_back = false;
  for (std::uint64_t m = 0; m < trace.n_moments(); ++m) {
    const Moment& moment = trace.moment(m);
    const double compute_s = seconds.compute.at(m);
    goes_back = goes_back || moment.kind == MomentKind::backward;
    if (of_unit(moment.kind)) (goes_back ? found.backward : found.forward) += compute_s;
    if (moment.kind == MomentKind::update) (moment.beside ? found.update_beside : found.update_on_device) += compute_s;
    if (moment.kind == MomentKind::update && moment.beside && found.measures_norm) found.update_after_norm += compute_s;
    found.measures_norm = found.measures_norm || moment.kind == MomentKind::norm;
  }
  return found;
}

StepBound step_bound(const AccessTrace& trace, const MomentSeconds& seconds, const StepPlan& plan,
                     const IndexedVector<ChunkId, std::uint64_t>& n_bytes, const LinkCosts& costs) {
  const PassSeconds passes = pass_seconds(trace, seconds);
  StepBound bound{passes.forward + passes.backward + passes.update_on_device, "compute"};
  const auto at_least = [&bound](double lane_s, const char* lane) {
    if (lane_s > bound.seconds) bound = {lane_s, lane};
  };
  at_least(passes.update_beside, name(Lane::host_update));
  if (passes.update_after_norm > 0) at_least(passes.backward + passes.update_after_norm, name(Lane::host_update));
  const LinkSeconds links = seconds_of(plan.estimate.moved, costs);
  for (std::size_t link = 0; link < kLinkNames.size(); ++link) at_least(links[link], kLinkNames[link]);
  at_least(costs.nvme_share * (links[kNvmeRead] + links[kNvmeWrite]), "nvme");
  bound.seconds += first_tile_s(trace, seconds, n_bytes, costs);
  return bound;
}

}  // namespace castor
