// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <castor/memory/host_team.h>
#include <castor/rules/trust_ratio.h>
#include <castor/schedule/scheduler.h>

#include "team_directions.h"
#include "tile_inputs.h"

namespace castor {

/// The trust ratios of tensors, measured before their first part is updated: LARS's from the norms of weights and
/// gradient, LAMB's from those of masters and of the direction of the update.
///
/// On a GPU they are measured in stream order before the update; on the host by the team, and the update begins after
/// the measure. Threads: one at a time.
class TrustMeasures {
 public:
  /// Borrowed.
  struct Parts {
    const TileInputs& inputs;
    Scheduler& scheduler;
    Stream& compute;
    HostTeam& team;
    bool overlap = false;  ///< updates on the host run beside the training thread
  };

  explicit TrustMeasures(const Parts& parts) : parts_(parts), host_ratios_(parts.inputs.states.n_tensors(), 1) {}

  /// The place from which the kernel that updates `tensor` reads its ratio; 1 for rules without one.
  const float* ratio(TensorId tensor) const;

  /// The measures of one chunk's update, which must outlive its tiles.
  class OfChunk {
   public:
    OfChunk(TrustMeasures& measures, PayloadId chunk, StepTerms terms)
        : measures_(measures), chunk_(chunk), terms_(terms) {}

    /// Measures tensors that lie in several tiles, which need not be in memory together: in a pass of its own before
    /// any of them changes. Errors: those of the mover and of the kernels.
    [[nodiscard]] Result<void> measure_cut_tensors();
    /// Measures the tensors of `tile` whose ratios its update needs. Requires: its chunks are in place. The measure
    /// begins after the events that are in `after`, and adds its own, after which the update begins. Errors: those of
    /// the kernels.
    [[nodiscard]] Result<void> before_update(TileId tile, std::vector<Event>& after);

   private:
    std::optional<TrustTerms> terms_of(TensorId tensor) const {
      return trust_terms(terms_.options.of(tensor), terms_.grad_scale);
    }
    Result<void> measure_trust(std::vector<Event>& after);
    Result<void> measure_trust_on_gpu();
    Result<void> measure_tile(TileId tile);
    Result<void> measure_directions(TileId tile, const std::vector<TilePart>& parts,
                                    const std::vector<Event>& after);
    std::vector<TilePart> measured_parts(TileId tile, bool cut) const;

    TrustMeasures& measures_;
    const PayloadId chunk_;
    const StepTerms terms_;
    TeamDirections directions_;
  };

 private:
  Result<TrustRatios*> device_ratios();

  const Parts parts_;
  IndexedVector<TensorId, float> host_ratios_;
  std::unique_ptr<TrustRatios> device_ratios_;  ///< null until the first step that measures on a GPU
};

}  // namespace castor
