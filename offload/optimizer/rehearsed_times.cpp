// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/rehearsal.h>

#include <map>
#include <tuple>
#include <utility>

namespace castor {
namespace {

/// Rate of an update on a GPU, states read and written, and the thread's time for it.
constexpr double kUpdateBytesPerS = 1e12, kThreadSeconds = 20e-6;

/// Finds moments of an iteration again: the n-th forward pass of a unit is the n-th one of the other iteration.
class MomentFinder {
 public:
  explicit MomentFinder(const AccessTrace& trace) {
    for (std::uint64_t m = 0; m < trace.n_moments(); ++m) positions_[key(trace.moment(m))].push_back(m);
  }

  /// The position of the moment that is like this one, and the next such moment at the next call; kNever where the
  /// iteration has no more of them.
  std::uint64_t next(const Moment& moment) {
    const auto found = positions_.find(key(moment));
    if (found == positions_.end()) return AccessTrace::kNever;
    const std::size_t n = n_found_[found->first]++;
    return n < found->second.size() ? found->second[n] : AccessTrace::kNever;
  }

 private:
  using Key = std::tuple<MomentKind, std::uint32_t, bool>;
  static Key key(const Moment& moment) { return {moment.kind, moment.id, moment.beside}; }

  std::map<Key, std::vector<std::uint64_t>> positions_;
  std::map<Key, std::size_t> n_found_;
};

}  // namespace

AccessTrace timed_as(const AccessTrace& recorded, const Rehearsal& step, std::span<const ChunkId> activations) {
  std::map<ChunkId, ChunkId> in_training;
  for (std::size_t i = 0; i < step.activations.size() && i < activations.size(); ++i)
    in_training[step.activations[i]] = activations[i];
  MomentFinder finder(recorded);
  AccessTrace made;
  MomentSeconds seconds;
  for (std::uint64_t m = 0; m < step.trace.n_moments(); ++m) {
    const auto needs = step.trace.needs(m);
    std::vector<Need> renumbered(needs.begin(), needs.end());
    for (Need& need : renumbered)
      if (const auto found = in_training.find(need.chunk); found != in_training.end()) need.chunk = found->second;
    made.add(step.trace.moment(m), renumbered);
    for (std::size_t i = 0; i < needs.size(); ++i) {
      if (const auto n_bytes = step.trace.arriving_bytes(m, needs[i].chunk); n_bytes > 0)
        made.add_arrival(renumbered[i].chunk, n_bytes);
      if (step.trace.dropped(m, needs[i].chunk)) made.drop(renumbered[i].chunk);
    }
    const std::uint64_t position = finder.next(step.trace.moment(m));
    const bool known = position < recorded.seconds().compute.size();
    const auto state_bytes = needs.empty() ? 0 : static_cast<double>(step.problem.chunks[needs.front().chunk].n_bytes);
    seconds.compute.push_back(known ? recorded.seconds().compute[position] : 2 * state_bytes / kUpdateBytesPerS);
    seconds.thread.push_back(known ? recorded.seconds().thread[position] : kThreadSeconds);
  }
  made.set_seconds(std::move(seconds));
  return made;
}

}  // namespace castor
