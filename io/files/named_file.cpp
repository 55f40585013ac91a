// SPDX-License-Identifier: Apache-2.0
#include "named_file.h"

#include <cerrno>
#include <filesystem>

#include "engine/io_error.h"

namespace castor {

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Error file_error(std::string_view what, const std::string& path, int error_number) {
  return path_error(what, error_number == ENOENT ? folder_of(path) : path, error_number);
}

}  // namespace castor
