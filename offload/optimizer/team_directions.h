// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <castor/memory/host_team.h>
#include <castor/rules/trust_ratio.h>

namespace castor {

/// LAMB's ratios of a chunk's tensors in host memory, made by a team of threads: the norms block by block, of a tensor that
/// lies in several tiles tile after tile, then the ratios.
class TeamDirections {
 public:
  /// A part of tensor number `tensor`, whose ratio shall go to `*ratio` behind its last part. Requires: as
  /// DirectionNormKernel::add, but for tensors in between.
  void add(std::uint32_t tensor, const TrustTerms& terms, const LambCoefficients& coefficients,
           const MeasuredPart& part, float* ratio);

  /// Hands what was added since the last start to `team`, for when what is in `after` and what was started before have been
  /// reached. What it reads and writes must be there until done().
  void start(HostTeam& team, std::uint32_t urgency, std::vector<Event> after);

  /// The end of all that was started, bad where one of `after` ended badly; no event where nothing was.
  const Event& done() const { return done_; }

 private:
  /// What is known of a tensor's norms so far.
  struct Sums {
    TrustTerms terms;
    float* ratio = nullptr;
    std::vector<DirectionPair> blocks;
    std::shared_ptr<DirectionRows> open;  ///< of the block that the next part goes on with; null between two blocks
    void write_ratio() const;
  };
  struct Piece {
    LambCoefficients coefficients;
    DirectionPiece of;
    std::shared_ptr<Sums> sums;           // owners: the pieces, and this until the tensor's last part
    std::shared_ptr<DirectionRows> rows;  // owners: the pieces of a block that lies in several parts; null for others
    void run() const;
  };
  struct Work {
    std::vector<Piece> pieces;
    std::vector<std::shared_ptr<Sums>> complete;
  };

  std::map<std::uint32_t, std::shared_ptr<Sums>> open_;    ///< by tensor
  std::shared_ptr<Work> work_ = std::make_shared<Work>();  // owners: this until the start, and the jobs
  Event done_;
};

}  // namespace castor
