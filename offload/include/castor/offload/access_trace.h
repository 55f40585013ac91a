// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include <castor/chunk/chunk.h>

namespace castor {

/// What happens at a moment.
enum class MomentKind : std::uint8_t { forward, backward, norm, update };

/// `forward`, `backward`, `norm`, `update`, as traces spell them.
const char* name(MomentKind kind);

/// A point of the step at which chunks are needed: unit `id` runs forward or backward, or the gradients of payload
/// chunk `id` are measured or applied.
struct Moment {
  MomentKind kind = MomentKind::forward;
  std::uint32_t id = 0;
  bool operator==(const Moment&) const = default;
};

/// What a moment does with a chunk.
enum class Access : std::uint8_t {
  read,       ///< needs the contents and leaves them
  update,     ///< needs the contents and changes them
  overwrite,  ///< replaces them without looking
};

/// One chunk a moment needs, and where.
struct Need {
  ChunkId chunk = 0;
  Tier tier = Tier::device;
  Access access = Access::read;
};

/// The moments of one iteration in the order in which they came, and when each chunk is needed next. The iteration
/// repeats, so "next" wraps around its end.
class AccessTrace {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  void add(Moment moment, std::span<const Need> needs);
  void clear();
  bool empty() const { return moments_.empty(); }
  std::uint64_t n_moments() const { return moments_.size(); }
  const Moment& moment(std::uint64_t position) const { return moments_.at(position); }
  std::span<const Need> needs(std::uint64_t position) const { return needs_.at(position); }

  /// Moments from `position` on (this one included) until `chunk` is needed in `tier`; kNever where no moment needs it
  /// there.
  std::uint64_t distance(ChunkId chunk, Tier tier, std::uint64_t position) const;

 private:
  std::vector<Moment> moments_;
  std::vector<std::vector<Need>> needs_;
  std::map<std::pair<ChunkId, Tier>, std::vector<std::uint64_t>> uses_;  ///< ascending positions
};

}  // namespace castor
