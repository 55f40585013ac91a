// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <castor/memory/result.h>

namespace castor::cli {

/// A file or folder, and the option that names it.
struct NamedPath {
  std::string option;  ///< `--data`
  std::filesystem::path path;
};

/// The files of a command.
struct CommandFiles {
  std::vector<NamedPath> inputs;   ///< files that are read
  std::vector<NamedPath> folders;  ///< of checkpoints, tiers and plugins: their files are the command's own
  std::vector<NamedPath> outputs;  ///< files that are written
};

/// Call it before anything is written.
///
/// Errors: usage where an output is an input, another output, the file of stdout or stderr, or a file of a folder that
/// Castor keeps there (data files, the manifest, plugins), by the identity of the files and not by their names, so that
/// links and other spellings are the same file; usage where an output is no regular file; io where it cannot be written.
Result<void> check_outputs(const CommandFiles& files);

}  // namespace castor::cli
