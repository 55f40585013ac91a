// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/index.h>

namespace castor {

/// A tensor's place in the model's order of registration, in which norms combine. Parameters without elements are no
/// tensors, so a model that has one counts its parameters otherwise (ParamId).
enum class RegisteredId : std::uint32_t {};

}  // namespace castor
