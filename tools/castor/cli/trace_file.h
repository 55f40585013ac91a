// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <castor/memory/result.h>

namespace castor {

/// Takes the text of a trace file apart (docs/trace.md) and hands its object to `read`. Errors: failed, where it is no
/// trace of a version that is known, and where `read` throws, with what it says; `origin` is the file's name in messages.
Result<void> parse_trace_file(std::string_view text, const std::string& origin,
                              const std::function<void(const nlohmann::json&)>& read);

/// The text of a file. Errors: io.
Result<std::string> read_trace_file(const std::filesystem::path& path);

}  // namespace castor
