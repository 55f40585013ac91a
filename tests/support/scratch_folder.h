// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace castor::test {

/// A new folder that goes with the object. It lies under TEST_TMPDIR, or else where the build runs, which is a drive
/// (/tmp may be a tmpfs).
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* parent = std::getenv("TEST_TMPDIR");
    std::string path = std::string(parent ? parent : ".") + "/castor-test-XXXXXX";
    if (!mkdtemp(path.data())) throw std::runtime_error("cannot make a folder in " + path);
    path_ = std::filesystem::absolute(path).lexically_normal().string();
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

}  // namespace castor::test
