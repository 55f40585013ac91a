// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace castor {

/// Where a parameter stands between two uses. A chunk moves by the states of its tensors: it stays where it is while one
/// of them computes, and its gradients may leave once all of them are ready.
///
/// Source: the states of PatrickStar (Fang et al. 2021, section 6) as Colossal-AI's Gemini names them.
enum class TensorState : std::uint8_t {
  free,              ///< has no contents: not initialised yet
  hold,              ///< has contents, nobody computes with them; the chunk may move
  compute,           ///< an operator reads it; the chunk stays on the device
  hold_after_bwd,    ///< its backward has run, its gradient has not landed yet
  ready_for_reduce,  ///< its gradient has landed
};

inline constexpr std::size_t kNTensorStates = 5;
constexpr std::size_t index(TensorState state) { return static_cast<std::size_t>(state); }

/// `FREE`, `HOLD`, `COMPUTE`, `HOLD_AFTER_BWD`, `READY_FOR_REDUCE`.
const char* name(TensorState state);

/// True where a tensor may go from `from` to `to`:
///
/// | from \ to        | FREE | HOLD | COMPUTE | HOLD_AFTER_BWD | READY_FOR_REDUCE |
/// |------------------|------|------|---------|----------------|------------------|
/// | FREE             |      | yes  |         |                |                  |
/// | HOLD             | yes  |      | yes     |                | yes (1)          |
/// | COMPUTE          |      | yes  |         | yes            |                  |
/// | HOLD_AFTER_BWD   |      | yes  | yes (2) |                | yes              |
/// | READY_FOR_REDUCE |      | yes  | yes (2) |                |                  |
///
/// (1) autograd may hand a gradient over after the unit that used the parameter was closed; (2) used again: tied, or
/// recomputed in another micro-batch.
bool allowed(TensorState from, TensorState to);

}  // namespace castor
