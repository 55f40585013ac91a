// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "files/folder_ops.h"
#include "engine/io_error.h"

namespace castor::test {

/// Passes calls on to another FolderOps, except that one call fails, or all from one on: they do nothing, or, where
/// they write, half of it. Calls are counted from 1.
///
/// Threads: one at a time.
class FaultyFolderOps final : public FolderOps {
 public:
  /// `inner` is borrowed. The `nth` call fails with `error_number`; 0 = none does.
  FaultyFolderOps(FolderOps& inner, std::uint64_t nth, int error_number, bool for_ever = false)
      : inner_(inner), nth_(nth), error_number_(error_number), for_ever_(for_ever) {}

  /// Whether the call that fails was made.
  bool reached() const { return nth_ != 0 && n_calls_ >= nth_; }

  Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) override {
    if (!fails()) return inner_.write_file(path, bytes);
    CASTOR_TRY(inner_.write_file(path, bytes.first(bytes.size() / 2)));
    return failure(path);
  }
  Result<std::optional<std::vector<std::byte>>> read_file(const std::string& path, std::uint64_t max_bytes) override {
    if (fails()) return failure(path);
    return inner_.read_file(path, max_bytes);
  }
  Result<void> sync_file(const std::string& path) override { return fails() ? failure(path) : inner_.sync_file(path); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return fails() ? failure(to) : inner_.rename(from, to);
  }
  Result<void> remove(const std::string& path) override { return fails() ? failure(path) : inner_.remove(path); }
  Result<void> sync_folder(const std::string& folder) override {
    return fails() ? failure(folder) : inner_.sync_folder(folder);
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    if (fails()) return failure(folder);
    return inner_.list(folder);
  }

 private:
  bool fails() {
    ++n_calls_;
    return nth_ != 0 && (for_ever_ ? n_calls_ >= nth_ : n_calls_ == nth_);
  }
  Error failure(const std::string& path) const { return path_error("cannot go on with " + path, path, error_number_); }

  FolderOps& inner_;
  std::uint64_t nth_;
  int error_number_;
  bool for_ever_;
  std::uint64_t n_calls_ = 0;
};

}  // namespace castor::test
