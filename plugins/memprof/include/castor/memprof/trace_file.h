// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <castor/memory/result.h>

namespace castor {

/// Parses the text of a trace file (docs/trace.md) and passes its object to `read`; `origin` is the file's name in
/// messages. Errors: failed if the text is no trace of a known version, or if `read` throws, with the message of the
/// exception.
Result<void> parse_trace_file(std::string_view text, const std::string& origin,
                              const std::function<void(const nlohmann::json&)>& read);

/// The text of a file. Errors: io.
Result<std::string> read_trace_file(const std::filesystem::path& path);

}  // namespace castor
