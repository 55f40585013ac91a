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

/// The kind of work at a moment.
enum class MomentKind : std::uint8_t { forward, backward, norm, update };

/// True where the moment's id is that of a unit.
constexpr bool of_unit(MomentKind kind) { return kind == MomentKind::forward || kind == MomentKind::backward; }

/// True for a norm that needs no chunks: its sums were made as the gradients arrived, and the last sum is ready when
/// backward has ended.
constexpr bool joins(MomentKind kind, std::size_t n_needs) { return kind == MomentKind::norm && n_needs == 0; }

/// `forward`, `backward`, `norm`, `update`, as traces spell them.
const char* name(MomentKind kind);

/// A point of the step at which chunks are needed: unit `id` runs forward or backward on a micro-batch, or the
/// gradients of payload chunk `id` are measured or applied. At a norm that needs no chunks, the thread waits for the
/// sum of the gradients.
struct Moment {
  MomentKind kind = MomentKind::forward;
  std::uint32_t id = 0;
  bool beside = false;            ///< its work runs on a lane of the host, beside the training thread
  std::uint32_t micro_batch = 0;  ///< of a unit: number in the step
  std::uint32_t model_chunk = 0;  ///< of a unit: the part of the model, where a pipeline's rank holds several
  bool operator==(const Moment&) const = default;
};

/// How a moment accesses a chunk.
enum class Access : std::uint8_t {
  read,       ///< needs the contents and does not change them
  update,     ///< needs the contents and changes them
  overwrite,  ///< replaces the contents without reading them
};

/// `read`, `update` or `overwrite`, as traces spell them.
const char* name(Access access);

/// One chunk that a moment needs, and the tier on which it needs it.
struct Need {
  ChunkId chunk{};
  Tier tier = Tier::device;
  Access access = Access::read;
  bool operator==(const Need&) const = default;
};

/// The time that each moment takes without waiting, by moment.
struct MomentSeconds {
  /// Time on the compute stream for a moment that needs the device, on the lane for one beside the thread, and of the
  /// training thread for the others.
  std::vector<double> compute;
  std::vector<double> thread;  ///< of the training thread, which may run ahead of the stream
};

/// The moments of one iteration in their order, and the next moment at which each chunk is needed. The iteration
/// repeats, so "next" wraps around its end.
class AccessTrace {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  void add(Moment moment, std::span<const Need> needs);
  /// Adds the moment at `position` of another iteration, with its needs, arrivals and drops.
  void repeat(const AccessTrace& other, std::uint64_t position);
  /// The last moment also needs a chunk; a need of the same chunk that is there already stays as it is. Requires: a
  /// moment (ContractViolation).
  void add_need(const Need& need);
  /// `n_bytes` of `chunk` are copied from the device's memory to the host in the last moment, under every plan.
  /// Requires: a moment (ContractViolation).
  void add_arrival(ChunkId chunk, std::uint64_t n_bytes);
  /// The owner of `chunk` forgets its contents: no moment needs them after the last one that needed `chunk`.
  void drop(ChunkId chunk);
  /// Requires: both vectors have an entry for each moment (ContractViolation).
  void set_seconds(MomentSeconds seconds);
  void clear();
  bool empty() const { return moments_.empty(); }
  /// True where the thread waits at `position` for the work that was queued on the compute stream before.
  bool joins(std::uint64_t position) const { return castor::joins(moment(position).kind, needs(position).size()); }
  std::uint64_t n_moments() const { return moments_.size(); }
  const Moment& moment(std::uint64_t position) const { return moments_.at(position); }
  std::span<const Need> needs(std::uint64_t position) const { return needs_.at(position); }
  /// 0 for moments whose time was not set.
  const MomentSeconds& seconds() const { return seconds_; }
  /// Bytes of `chunk` that were copied from the device at `position`.
  std::uint64_t arriving_bytes(std::uint64_t position, ChunkId chunk) const;
  /// True where `chunk` was needed at `position` for the last time before it was dropped.
  bool dropped(std::uint64_t position, ChunkId chunk) const { return drops_.contains({position, chunk}); }
  /// True where both traces have the same moments with the same needs and drops.
  bool same_accesses(const AccessTrace& other) const {
    return moments_ == other.moments_ && needs_ == other.needs_ && drops_ == other.drops_;
  }

  /// The number of moments from `position` (included) to the next one that needs `chunk` in `tier`; kNever where no
  /// moment needs it there.
  std::uint64_t distance(ChunkId chunk, Tier tier, std::uint64_t position) const;

 private:
  void note_use(const Need& need);
  const std::vector<std::uint64_t>* uses(ChunkId chunk, Tier tier) const;

  std::vector<Moment> moments_;
  std::vector<std::vector<Need>> needs_;
  std::map<std::pair<std::uint64_t, ChunkId>, std::uint64_t> arriving_bytes_;
  std::set<std::pair<std::uint64_t, ChunkId>> drops_;
  MomentSeconds seconds_;
  std::array<IndexedVector<ChunkId, std::vector<std::uint64_t>>, 2> uses_;  ///< by tier and chunk, ascending positions
};

}  // namespace castor
