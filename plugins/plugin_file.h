// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include <filesystem>

namespace castor {

/// Opens the shared object at `path` for good and calls its query; returns the description, unchecked and never null.
/// No other function of the plugin is called.
///
/// Opened with RTLD_NOW | RTLD_LOCAL: a missing symbol shows here and not at step 40, and two plugins cannot see each
/// other's. Errors: plugin, each with its own sentence: no such file, not a shared object, not loadable (with the
/// linker's message), no query symbol.
Result<const castor_plugin_info*> open_plugin(const std::filesystem::path& path);

}  // namespace castor
