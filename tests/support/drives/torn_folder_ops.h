// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <stdexcept>
#include <string>

#include "files/folder_ops.h"
#include "support/drives/torn_drive.h"

namespace castor::test {

/// Passes calls on to another FolderOps and has a TornDrive log them. A call that fails is logged as if it had done
/// nothing, except a write, which is logged with the bytes it left.
///
/// Threads: those of `inner`.
class TornFolderOps final : public FolderOps {
 public:
  /// Both are borrowed.
  TornFolderOps(FolderOps& inner, TornDrive& drive) : inner_(inner), drive_(drive) {}

  Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) override {
    auto outcome = inner_.write_file(path, bytes);
    const auto left = inner_.read_file(path, bytes.size());
    if (!left.ok() || !left.value()) return outcome;
    drive_.note_length(inode_of(path), 0);
    drive_.note_write(inode_of(path), 0, *left.value());
    return outcome;
  }
  Result<std::optional<std::vector<std::byte>>> read_file(const std::string& path, std::uint64_t max_bytes) override {
    return inner_.read_file(path, max_bytes);
  }
  Result<void> sync_file(const std::string& path) override {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) return inner_.sync_file(path);
    const auto sync = drive_.begin_sync(facts.st_ino);
    CASTOR_TRY(inner_.sync_file(path));
    drive_.end(sync);
    return {};
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    auto outcome = inner_.rename(from, to);
    drive_.note_names();
    return outcome;
  }
  Result<void> remove(const std::string& path) override {
    auto outcome = inner_.remove(path);
    drive_.note_names();
    return outcome;
  }
  Result<void> sync_folder(const std::string& folder) override {
    CASTOR_TRY(inner_.sync_folder(folder));
    drive_.note_sync_folder(folder);
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& folder) override { return inner_.list(folder); }

 private:
  static ino_t inode_of(const std::string& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) throw std::runtime_error("cannot look at " + path);
    return facts.st_ino;
  }

  FolderOps& inner_;
  TornDrive& drive_;
};

}  // namespace castor::test
