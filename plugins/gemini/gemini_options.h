// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <castor/engine/engine_options.h>
#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

namespace castor {

/// The options of the plugin, with their defaults, ranges and help.
extern const castor_option kGeminiSchema[];
extern const std::uint32_t kGeminiSchemaSize;

/// The engine's settings from values of the schema. Requires: every option has a value. Errors: usage.
Result<EngineOptions> read_gemini_options(const castor_option_value* values, std::size_t n_values);

}  // namespace castor
