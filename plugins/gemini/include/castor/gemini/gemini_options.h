// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include <castor/engine/engine_options.h>
#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/option_schema.h>

namespace castor {

/// The options of the plugin, with their defaults, ranges and help.
std::span<const castor_option* const> gemini_schema();

/// The engine's settings from values of the schema. Requires: every option has a value. Errors: usage.
Result<EngineOptions> read_gemini_options(std::span<const castor_option_value* const> values);

/// The same from options by name, with the defaults of those that are left out. Errors: as complete_options.
Result<EngineOptions> engine_options(const PluginOptions& options);

}  // namespace castor
