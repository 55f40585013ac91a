// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace castor {

/// The state of a parameter in and between its uses. TensorTable checks the transitions; the pins of ChunkManager, not
/// these states, keep a chunk in its tier.
///
/// Source: the states of PatrickStar (Fang et al. 2021, section 6) as Colossal-AI's Gemini names them.
enum class TensorState : std::uint8_t {
  free,              ///< has no contents: not initialised yet
  hold,              ///< has contents that no operator reads
  compute,           ///< an operator reads it on the device
  hold_after_bwd,    ///< its backward has run, its gradient has not arrived yet
  ready_for_reduce,  ///< its gradient has arrived
};

inline constexpr std::size_t kNTensorStates = 5;
constexpr std::size_t index(TensorState state) { return static_cast<std::size_t>(state); }

/// `FREE`, `HOLD`, `COMPUTE`, `HOLD_AFTER_BWD`, `READY_FOR_REDUCE`.
const char* name(TensorState state);

/// True where the transition of a tensor from `from` to `to` is legal:
///
/// | from \ to        | FREE | HOLD | COMPUTE | HOLD_AFTER_BWD | READY_FOR_REDUCE |
/// |------------------|------|------|---------|----------------|------------------|
/// | FREE             |      | yes  |         |                |                  |
/// | HOLD             | yes  |      | yes     |                | yes (1)          |
/// | COMPUTE          |      | yes  |         | yes            |                  |
/// | HOLD_AFTER_BWD   |      | yes  | yes (2) |                | yes              |
/// | READY_FOR_REDUCE |      | yes  | yes (2) |                |                  |
///
/// (1) autograd may deliver a gradient after the unit that used the parameter has ended; (2) the parameter is used
/// again: it is tied, or recomputed in another micro-batch.
bool allowed(TensorState from, TensorState to);

}  // namespace castor
