// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/result.h>

namespace castor {

/// The order of the calls of a training: resume, then steps of one or more backward passes. Before the last of these no
/// value changes: the run can be saved, and values read, as of the last step.
class StepOrder {
 public:
  enum class State : std::uint8_t {
    fresh,      ///< nothing was trained or resumed
    between,    ///< two steps
    gathering,  ///< backward passes of a step were made, the last one was not
    ended,      ///< the last backward pass of a step was made
    clipped,    ///< the gradients of a step are final
    broken,     ///< a call of the step has failed
    torn,       ///< a run was resumed in part
  };
  enum class Call : std::uint8_t {
    resume,
    forward,
    backward,
    last_backward,
    clip,
    step,
    save,
    read,
    write,
    read_gradient,
    write_gradient,
  };

  State state() const { return state_; }
  /// A backward pass of a step was made or has failed.
  bool is_under_way() const { return state_ != State::fresh && state_ != State::between && state_ != State::torn; }
  /// No gradient comes to the step under way any more.
  bool has_all_gradients() const { return state_ == State::ended || state_ == State::clipped; }
  /// Errors: usage where `call` is not in order; the sentence names the call that is.
  Result<void> check(Call call) const;
  /// Notes that `call` succeeded. Requires: check (ContractViolation).
  void done(Call call);
  /// Notes that a call of a step failed.
  void failed() { state_ = State::broken; }
  /// Notes that a run was resumed in part: nothing is in order but resume.
  void torn() { state_ = State::torn; }
  /// Notes that the step under way was dropped.
  void abandoned() { state_ = rest_; }

 private:
  State state_ = State::fresh;
  State rest_ = State::fresh;  ///< the last one outside a step
};

}  // namespace castor
