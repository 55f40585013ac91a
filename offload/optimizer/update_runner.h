// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <castor/memory/host_team.h>
#include <castor/memory/stream_spans.h>
#include <castor/rules/update_rule.h>
#include <castor/schedule/scheduler.h>

#include "tile_inputs.h"
#include "tile_update.h"
#include "norms/trust_measures.h"

namespace castor {

/// Receives the events of one chunk's update, which is made for good or so that it can be taken back.
class UpdateJournal {
 public:
  virtual ~UpdateJournal() = default;
  /// True where the old weights must stay readable, so that they are fetched even if the update replaces all of them.
  virtual bool keeps_old() const = 0;
  /// Called when the chunks of `tile` are in place, before its update. Errors: the update may not be made now.
  virtual Result<void> begin_tile(TileId tile) = 0;
  /// Called when the counter of `tensor` has gone up.
  virtual void counted(TensorId tensor) = 0;
  /// Called when the update of `tile` has been queued to the team; `updated` is its end.
  virtual void started(TileId tile, const Event& updated) = 0;
  /// Set to skip updates that have not begun, whose results are not wanted any more; may be null.
  virtual std::shared_ptr<std::atomic<bool>> cancelled() const = 0;
};

/// Updates chunks: fetches their states tile by tile, runs the kernel of the rule on the tier of the update, and counts
/// the update. With overlap updates on the host run beside the training thread, in the order in which the next forward
/// pass needs them.
///
/// Threads: one at a time.
class UpdateRunner {
 public:
  /// Borrowed; must outlive the runner and the updates that it started.
  struct Parts {
    const TileInputs& inputs;
    TrustMeasures& trust;
    StatefulTensorMgr& mover;
    Scheduler& scheduler;
    Stream& compute;
    Timeline& timeline;
    StreamSpans& computed;  ///< of `compute`
    HostTeam& team;
    bool overlap = false;
  };

  /// Errors: those of UpdateKernels::make.
  static Result<std::unique_ptr<UpdateRunner>> make(const Parts& parts);

  /// Updates every tile of `chunk` from its gradients, which stay. Errors: those of the mover, of the kernels and of
  /// the journal; the tiles before the one that failed have been updated.
  [[nodiscard]] Result<void> update(PayloadId chunk, StepTerms terms, UpdateJournal& journal);

 private:
  UpdateRunner(const Parts& parts, UpdateKernels device_kernels)
      : parts_(parts), device_kernels_(std::move(device_kernels)) {}
  Result<void> update_tile(PayloadId chunk, TileId tile, StepTerms terms, TrustMeasures::OfChunk& measures,
                           UpdateJournal& journal);
  std::array<Need, 3> needs_of(PayloadId chunk, TileId tile, const StepOptions& options,
                               bool keeps_old) const;
  TileUpdate update_of(PayloadId chunk, TileId tile, StepTerms terms, UpdateJournal& journal) const;
  void run_beside(PayloadId chunk, TileId tile, TileUpdate update, std::vector<Event> after,
                  std::span<const Need> needs, UpdateJournal& journal);
  Result<void> run_on_gpu(PayloadId chunk, TileId tile, const TileUpdate& update);
  Event start(PayloadId chunk, TileId tile, TileUpdate update, std::vector<Event> after,
              const UpdateJournal& journal);
  Checksums start_checksums(PayloadId chunk, TileId tile, Event& updated);
  bool runs_beside(PayloadId chunk) const {
    return parts_.overlap && parts_.inputs.states.update_tier(chunk) == Tier::host;
  }

  const Parts parts_;
  const UpdateKernels device_kernels_;
  const UpdateKernels host_kernels_ = UpdateKernels::make_host();
};

}  // namespace castor
