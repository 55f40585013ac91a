// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <castor/chunk/chunk.h>

namespace castor {

/// What happens at a moment.
enum class MomentKind : std::uint8_t { forward, backward, norm, update };

/// True where the moment's id is a unit's.
constexpr bool of_unit(MomentKind kind) { return kind == MomentKind::forward || kind == MomentKind::backward; }

/// True of a norm that needs nothing: the sums have been made on the way, and the last of them comes when backward has ended.
constexpr bool joins(MomentKind kind, std::size_t n_needs) { return kind == MomentKind::norm && n_needs == 0; }

/// `forward`, `backward`, `norm`, `update`, as traces spell them.
const char* name(MomentKind kind);

/// A point of the step at which chunks are needed: unit `id` runs forward or backward, or the gradients of payload
/// chunk `id` are measured or applied; at a norm that needs none, the thread waits for their sum.
struct Moment {
  MomentKind kind = MomentKind::forward;
  std::uint32_t id = 0;
  bool beside = false;  ///< its work runs on a lane of the host, beside the thread that trains
  bool operator==(const Moment&) const = default;
};

/// What a moment does with a chunk.
enum class Access : std::uint8_t {
  read,       ///< needs the contents and leaves them
  update,     ///< needs the contents and changes them
  overwrite,  ///< replaces them without looking
};

/// `read`, `update` or `overwrite`, as traces spell them.
const char* name(Access access);

/// One chunk a moment needs, and where.
struct Need {
  ChunkId chunk = 0;
  Tier tier = Tier::device;
  Access access = Access::read;
  bool operator==(const Need&) const = default;
};

/// How long moments take beside waiting, by moment.
struct MomentSeconds {
  /// On the compute stream where a moment needs the device, on the lane where it is beside the thread, of the thread
  /// elsewhere.
  std::vector<double> compute;
  std::vector<double> thread;  ///< of the thread that trains, which may run ahead of the stream
};

/// The moments of one iteration in the order in which they came, and when each chunk is needed next. The iteration
/// repeats, so "next" wraps around its end.
class AccessTrace {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  void add(Moment moment, std::span<const Need> needs);
  /// A moment of another iteration as it was there: needs, arrivals and drops.
  void repeat(const AccessTrace& other, std::uint64_t position);
  /// Another chunk that the last moment needs; one that is there already stays as it is. Requires: a moment
  /// (ContractViolation).
  void add_need(const Need& need);
  /// `n_bytes` of `chunk` come from the device's memory to the host in the last moment, whatever the plan. Requires: a
  /// moment (ContractViolation).
  void add_arrival(ChunkId chunk, std::uint64_t n_bytes);
  /// The owner of `chunk` forgets its contents: nobody needs them after the last moment that needed it.
  void drop(ChunkId chunk);
  /// Requires: as many of both as moments (ContractViolation).
  void set_seconds(MomentSeconds seconds);
  void clear();
  bool empty() const { return moments_.empty(); }
  /// True where the thread waits at `position` for what the compute stream was given before it.
  bool joins(std::uint64_t position) const { return castor::joins(moment(position).kind, needs(position).size()); }
  std::uint64_t n_moments() const { return moments_.size(); }
  const Moment& moment(std::uint64_t position) const { return moments_.at(position); }
  std::span<const Need> needs(std::uint64_t position) const { return needs_.at(position); }
  /// 0 where nobody has said.
  const MomentSeconds& seconds() const { return seconds_; }
  /// Bytes of `chunk` that came from the device at `position`.
  std::uint64_t arriving_bytes(std::uint64_t position, ChunkId chunk) const;
  /// True where `chunk` was needed at `position` for the last time before it was dropped.
  bool dropped(std::uint64_t position, ChunkId chunk) const { return drops_.contains({position, chunk}); }
  /// True where both have the same moments with the same needs and drops.
  bool same_accesses(const AccessTrace& other) const {
    return moments_ == other.moments_ && needs_ == other.needs_ && drops_ == other.drops_;
  }

  /// Moments from `position` on (this one included) until `chunk` is needed in `tier`; kNever where no moment needs it
  /// there.
  std::uint64_t distance(ChunkId chunk, Tier tier, std::uint64_t position) const;

 private:
  void note_use(const Need& need);
  const std::vector<std::uint64_t>* uses(ChunkId chunk, Tier tier) const;

  std::vector<Moment> moments_;
  std::vector<std::vector<Need>> needs_;
  std::map<std::pair<std::uint64_t, ChunkId>, std::uint64_t> arriving_bytes_;
  std::set<std::pair<std::uint64_t, ChunkId>> drops_;
  MomentSeconds seconds_;
  std::array<std::vector<std::vector<std::uint64_t>>, 2> uses_;  ///< by tier and chunk, ascending positions
};

}  // namespace castor
