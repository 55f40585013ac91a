// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace castor {

/// The states of a strategy, as far as the order of calls into it goes.
enum class CallState : std::uint8_t {
  created,    ///< attach has not succeeded yet
  attached,   ///< no step was made, and no backward pass was begun
  between,    ///< between two steps
  announced,  ///< the next backward pass is the last before the step
  forward,    ///< within a unit's forward pass, outside backward
  backward,   ///< from the first unit or gradient of a backward pass to its end
  gathered,   ///< after a backward pass: the step has gradients
  complete,   ///< after the backward pass that was announced: updates may have begun
  lent,       ///< the host uses weights outside of units
};
inline constexpr std::uint32_t kNCallStates = 9;

/// A set of CallStates, a bit for each.
using CallStates = std::uint32_t;

/// The sets that the lists in castor/plugins/abi/ name.
namespace during {
constexpr CallStates only(CallState state) { return CallStates{1} << static_cast<std::uint32_t>(state); }
inline constexpr CallStates created = only(CallState::created), attached = only(CallState::attached),
                            between = only(CallState::between), announced = only(CallState::announced),
                            forward = only(CallState::forward), backward = only(CallState::backward),
                            gathered = only(CallState::gathered), complete = only(CallState::complete),
                            lent = only(CallState::lent);
inline constexpr CallStates any = (CallStates{1} << kNCallStates) - 1;
/// Once the strategy is attached.
inline constexpr CallStates life = any & ~created;
/// Outside of steps.
inline constexpr CallStates rest = attached | between;
/// While the values are those of the last step.
inline constexpr CallStates still = rest | gathered;
/// From a backward pass to the step.
inline constexpr CallStates before_step = gathered | complete;
/// While micro-batches are made, but within no unit.
inline constexpr CallStates step = rest | announced | before_step;
/// While micro-batches are made, within units or not. A backward pass may follow a forward pass that broke off.
inline constexpr CallStates pass = step | forward | backward;
}  // namespace during

/// The change of state that a call makes once it has succeeded.
enum class CallEffect : std::uint8_t {
  none,
  attaches,
  enters_forward,
  leaves_forward,
  begins_backward,
  ends_backward,
  announces,
  steps,
  drops,  ///< back to rest
  lends,  ///< once more; as often as it takes back
  takes_back,
};

/// The effects, as the lists name them.
namespace then {
using enum CallEffect;
}  // namespace then

}  // namespace castor
