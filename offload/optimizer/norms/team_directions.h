// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <castor/chunk/ids.h>
#include <castor/memory/host_team.h>
#include <castor/rules/trust_ratio.h>

namespace castor {

/// LAMB's ratios of a chunk's tensors in host memory, made by a team of threads: norms block by block, tile after tile
/// for a tensor in several tiles, then the ratios.
class TeamDirections {
 public:
  /// Adds a part of `tensor`, whose ratio is written to `*ratio` after its last part. Requires: as
  /// DirectionNormKernel::add, but for tensors in between.
  void add(TensorId tensor, const TrustTerms& terms, const LambCoefficients& coefficients,
           const MeasuredPart& part, float* ratio);

  /// Queues the parts added since the last start to `team`; they begin after the events in `after` and after the parts
  /// started before. The memory that they read and write must stay until done().
  void start(HostTeam& team, std::uint32_t urgency, std::vector<Event> after);

  /// The event of the end of everything started, failed where one of `after` failed; no event where nothing was
  /// started.
  const Event& done() const { return done_; }

 private:
  /// The norms of a tensor so far.
  struct Sums {
    TrustTerms terms;
    float* ratio = nullptr;
    std::vector<DirectionPair> blocks;
    std::shared_ptr<DirectionRows> open;  ///< of the block that the next part continues; null between two blocks
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

  std::map<TensorId, std::shared_ptr<Sums>> open_;
  std::shared_ptr<Work> work_ = std::make_shared<Work>();  // owners: this until the start, and the jobs
  Event done_;
};

}  // namespace castor
