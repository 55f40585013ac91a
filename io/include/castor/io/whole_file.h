// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <castor/memory/result.h>

namespace castor {

/// Files that a program makes for its user as a whole: a trace, a page, a report. They are written beside the old file
/// of their name (FileBeside), which stays as it was until the new one is complete, whatever happens.
/// Threads: any. All calls block.

/// Errors: io, one sentence with the path, where write_whole_file would fail now: the path is no regular file, or its
/// folder is missing or takes no file.
Result<void> check_whole_file(const std::string& path);

/// Makes `path` a file with exactly `bytes`. Errors: io, with the system's reason; then the old file is unchanged.
Result<void> write_whole_file(const std::string& path, std::string_view bytes);

}  // namespace castor
