// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <castor/schedule/scheduler.h>

#include "norms/norm_forecast.h"
#include "running_updates.h"
#include "step_machine.h"
#include "tile_inputs.h"
#include "update_runner.h"

namespace castor {

/// Updates on the host that are made before the norm is known, as if it scaled nothing down. The old states and weights
/// are saved until the norm is known; where it was too large they are made current again.
///
/// Threads: one at a time.
class Speculation {
 public:
  /// Borrowed; must outlive this. The undo chunks of `inputs` hold the old contents.
  struct Parts {
    const TileInputs& inputs;
    UpdateRunner& runner;
    Scheduler& scheduler;
    HostTeam& team;
    StepMachine& machine;  ///< poisoned where old contents cannot take their place again
  };

  explicit Speculation(const Parts& parts);
  /// Waits for the updates under way.
  ~Speculation();

  /// True where the placement has room for the update, the next norm is expected to scale nothing down, and `chunk`
  /// is not updated speculatively yet.
  bool may_update(PayloadId chunk) const;
  /// Updates `chunk` as if `options`' norm scaled nothing down. Where the host has no room after all, the step
  /// updates the chunk, also in later steps until forget_refusals(). Errors: others of the update, after which the
  /// chunk is as before; those of take_back.
  [[nodiscard]] Result<void> update(PayloadId chunk, const StepOptions& options);

  /// Makes the old states and weights of `chunk` the current ones again, if it was updated speculatively. Updates
  /// that are already running are not cancelled; their results are not read. Errors: interrupted; then the chunk is
  /// neither old nor new until the call is repeated. Others of the mover; then the step is poisoned.
  [[nodiscard]] Result<void> take_back(PayloadId chunk);
  [[nodiscard]] Result<void> take_back_all();

  /// Records the norm of the step: `plain` where it scales nothing down and skips nothing.
  void note_norm(bool plain) { forecast_.note(plain); }
  bool any() const { return !attempts_.empty(); }
  /// True where taking back a chunk was interrupted, so that its update must not be kept.
  bool half_taken_back() const;
  /// True where an update of this step was begun and found no room: the iteration is not one to expect again.
  bool dropped() const { return dropped_; }
  /// Ends the step that dropped() is about.
  void end_step() { dropped_ = false; }
  /// Another placement is in force: updates that found no room may be tried again.
  void forget_refusals() { without_room_.clear(); }
  /// A chunk whose speculative update is made for good, and the events of its tiles.
  struct Confirmed {
    PayloadId chunk{};
    std::vector<Event> updates;
  };
  /// Makes every speculative update one for good, and discards the old contents.
  std::vector<Confirmed> confirm_all();

  /// The kind of the next iteration under `placement`, predicted from the norms so far: speculative updates are moments
  /// of its backward pass.
  IterationKind next_kind(bool wants_norm, const StatePlacement& placement) const;

 private:
  class Attempt;

  void cancel(Attempt& attempt);
  Result<void> put_back(PayloadId chunk, ChunkId id);

  const Parts parts_;
  NormForecast forecast_;
  std::map<PayloadId, std::unique_ptr<Attempt>> attempts_;
  std::set<PayloadId> without_room_;  ///< whose update found no room on the host
  bool dropped_ = false;
  RunningUpdates taken_back_;  ///< updates whose results are not wanted
};

/// The scale of a gradient that the norm does not scale down.
inline double plain_scale(const StepOptions& options) { return 1 / options.loss_scale; }

}  // namespace castor
