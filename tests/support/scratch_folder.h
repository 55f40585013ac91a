// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ftw.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace castor::test {

/// A new folder that is removed with the object. It is under TEST_TMPDIR, or else in the folder that the build runs in,
/// which is on a drive (/tmp may be a tmpfs).
class ScratchFolder {
 public:
  ScratchFolder() : ScratchFolder(default_parent()) {}
  explicit ScratchFolder(const std::string& parent) {
    std::string path = parent + "/castor-test-XXXXXX";
    if (!mkdtemp(path.data())) throw std::runtime_error("cannot make a folder in " + path);
    path_ = std::filesystem::absolute(path).lexically_normal().string();
  }
  ~ScratchFolder() { (void)nftw(path_.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  static std::string default_parent() {
    const char* parent = std::getenv("TEST_TMPDIR");
    return parent ? parent : ".";
  }
  /// A file system in memory, where syncs cost nothing, for tests that open and commit stores by the thousand and do
  /// not test the drive; the default where there is none with room.
  static std::string quick_parent() {
    constexpr std::uintmax_t kEnoughBytes = 48 << 20;
    std::error_code failed;
    const auto space = std::filesystem::space("/dev/shm", failed);
    return !failed && space.available >= kEnoughBytes && !std::getenv("TEST_TMPDIR") ? "/dev/shm" : default_parent();
  }

  const std::string& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  /// std::filesystem::remove_all would call half of itself in LibTorch 2.11, which exports it and lacks the rest.
  static int remove_entry(const char* path, const struct stat*, int, struct FTW*) { return std::remove(path); }

  std::string path_;
};

}  // namespace castor::test
