// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <castor/memory/result.h>

namespace castor {

/// The state of the optimizer in a step.
enum class StepState : std::uint8_t {
  idle,       ///< between two steps
  announced,  ///< the options of the step are known; no update has been made that cannot be taken back
  updating,   ///< some chunks have been updated, or their updates are queued
  waiting,    ///< the step is over, but some updates wait for the next use of their chunk
  poisoned,   ///< an update failed after others had been made: the model is between two steps
};
inline constexpr std::size_t kNStepStates = 5;

/// An event of a step.
enum class StepEvent : std::uint8_t {
  announce,  ///< the caller gives the options of the step, before its backward pass ends
  update,    ///< a chunk is updated for good
  end,       ///< the step is over, and none of its updates waits
  defer,     ///< the step is over, and some of its updates wait
  catch_up,  ///< the last waiting update has been made
  fail,      ///< an update or a gradient was lost; chunks that were not updated are as before
  lose,      ///< a chunk is neither as before nor updated, or was updated without one of its gradients
  abandon,   ///< the caller drops the step, none of whose updates has been made for good
};
inline constexpr std::size_t kNStepEvents = 8;

/// The state that follows `state` at `event`, or nothing where the event is illegal there. A failure before the first
/// update leaves the model whole, so that the step can be abandoned or tried again.
constexpr std::optional<StepState> next_state(StepState state, StepEvent event) {
  using enum StepState;
  constexpr auto illegal = std::nullopt;
  constexpr std::array<std::array<std::optional<StepState>, kNStepEvents>, kNStepStates> table = {{
      // announce, update,   end,     defer,   catch_up, fail,      lose,     abandon
      {announced,  updating, idle,    waiting, illegal,  idle,      poisoned, idle},     // idle
      {announced,  updating, idle,    waiting, illegal,  announced, poisoned, idle},     // announced
      {illegal,    updating, idle,    waiting, illegal,  poisoned,  poisoned, illegal},  // updating
      {illegal,    waiting,  illegal, illegal, idle,     poisoned,  poisoned, waiting},  // waiting
      {illegal,    illegal,  illegal, illegal, illegal,  poisoned,  poisoned, illegal},  // poisoned
  }};
  return table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

/// The states of a step, from its announcement to its last update. An illegal event is refused with an error, and
/// poisons the step where chunks have been updated.
class StepMachine {
 public:
  bool in(StepState state) const { return state_ == state; }

  /// Takes `event`. Errors: failed, where it is illegal now.
  [[nodiscard]] Result<void> take(StepEvent event);
  /// Take `fail` and `lose`, which are legal in every state.
  void fail() { state_ = *next_state(state_, StepEvent::fail); }
  void lose() { state_ = *next_state(state_, StepEvent::lose); }

  /// Errors: failed, where the step is poisoned.
  [[nodiscard]] Result<void> whole() const;

 private:
  StepState state_ = StepState::idle;
};

}  // namespace castor
