// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/io/unique_fd.h>
#include <castor/memory/result.h>

namespace castor {

/// The file that `path` leads to, links followed, also where it is not there yet.
std::string followed(const std::string& path);

/// A new file beside the one that it is to replace, which stays as it was until take_place(). Removed if that does not come.
/// A link is followed to the file that it names. The mode follows the umask.
/// Threads: one at a time. All calls block.
class FileBeside {
 public:
  /// Errors: io, one sentence with the path: it leads to no regular file, or its folder is missing or takes no file.
  static Result<FileBeside> create(const std::string& path);
  FileBeside(FileBeside&& other) noexcept;
  FileBeside& operator=(FileBeside&&) = delete;
  ~FileBeside();

  int fd() const { return fd_.get(); }                   ///< open to write
  const std::string& path() const { return path_; }      ///< empty once it has taken its place
  const std::string& target() const { return target_; }  ///< what it replaces
  /// Errors: io; then the old file is unchanged. What was not synced may be missing after a loss of power.
  Result<void> take_place();

 private:
  FileBeside(UniqueFd fd, std::string path, std::string target);

  UniqueFd fd_;
  std::string path_, target_;
};

}  // namespace castor
