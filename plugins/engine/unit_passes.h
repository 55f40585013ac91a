// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "engine_rooms.h"
#include "gradient_room.h"
#include "lent_weights.h"
#include "model_values.h"

namespace castor {

/// The forward and backward passes of units: during each pass the chunks of the unit are on the device and pinned, and
/// its parameters bound.
///
/// Passes overlap: a unit may be entered in backward while another is open. A unit whose input needs no gradient has no
/// after_backward; the end of backward ends its pass, and backward passes that were cut short by an exception. A forward
/// pass may last to the end of the step.
/// Threads: one at a time.
class UnitPasses {
 public:
  /// Borrowed.
  UnitPasses(EngineRooms& rooms, ModelValues& values, LentWeights& lent)
      : rooms_(rooms), values_(values), lent_(lent), gradient_room_(rooms), open_(rooms.model.units.size()) {}

  /// Errors: those of the optimizer, the mover and the host; then the unit is not entered.
  [[nodiscard]] Result<void> begin_forward(UnitId unit);
  void end_forward(UnitId unit);
  [[nodiscard]] Result<void> begin_backward(UnitId unit);
  void end_backward(UnitId unit);

  /// The backward pass of a micro-batch is over: ends every backward pass that is open.
  void end_micro_batch();
  /// The step is over: ends every pass that is open.
  void end_step();
  /// Ends every pass that is open, and the span of the unit that was entered last.
  void end_all();
  /// Ends the span of the unit that was entered last, which covers the unit's work on the stream, and that of operators
  /// outside units after it.
  void end_span();

 private:
  struct Open {
    bool forward = false;
    std::uint32_t n_backward = 0;  ///< several where the unit was used several times and its input needs no gradient
  };
  /// The unit that was entered last.
  struct Span {
    StreamSpans::Begun begun;
    SpanRecord record;
  };

  Result<void> enter(MomentKind pass, UnitId unit);
  void leave(UnitId unit, StepCall::Kind pass);
  void end_backward_passes(UnitId unit);

  EngineRooms& rooms_;
  ModelValues& values_;
  LentWeights& lent_;
  GradientRoom gradient_room_;
  IndexedVector<UnitId, Open> open_;
  std::optional<Span> span_;
  std::uint32_t micro_batch_ = 0;  ///< number in the step
};

}  // namespace castor
