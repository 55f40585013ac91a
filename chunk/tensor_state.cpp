// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/tensor_state.h>

#include <castor/memory/result.h>

namespace castor {
namespace {

constexpr std::array<std::array<bool, kNTensorStates>, kNTensorStates> kAllowed = {{
    {false, true, false, false, false},
    {true, false, true, false, true},
    {false, true, false, true, false},
    {false, true, true, false, true},
    {false, true, true, false, false},
}};

}  // namespace

const char* name(TensorState state) {
  switch (state) {
    case TensorState::free: return "FREE";
    case TensorState::hold: return "HOLD";
    case TensorState::compute: return "COMPUTE";
    case TensorState::hold_after_bwd: return "HOLD_AFTER_BWD";
    case TensorState::ready_for_reduce: return "READY_FOR_REDUCE";
  }
  throw ContractViolation("TensorState holds no state");
}

bool allowed(TensorState from, TensorState to) { return kAllowed[index(from)][index(to)]; }

}  // namespace castor
