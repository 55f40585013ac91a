// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>
#include "model_map.h"

#include <cstdint>
#include <span>

namespace castor {

/// Fills `out` with the values that an adopted parameter has, in fp32 and in the order of its storage, from element
/// `first` on. They stay in the parameter's own memory, which its first bind frees: a strategy reads them before, so
/// that no more than this copy and its own exist. From any thread, and from several at once.
/// Errors: usage, once the parameter was bound.
Result<void> read_values(const ParamEntry& param, std::span<float> out, std::uint64_t first);
/// The same for `n` values of an opaque parameter, in its dtype.
Result<void> read_own_values(const ParamEntry& param, void* out, std::uint64_t first, std::uint64_t n);

}  // namespace castor
