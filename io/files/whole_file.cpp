// SPDX-License-Identifier: Apache-2.0
#include <castor/io/whole_file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <utility>

#include <castor/io/unique_fd.h>

#include "engine/io_error.h"
#include "named_file.h"
#include "size_signal.h"

namespace castor {
namespace {

constexpr int kMostTries = 100;
constexpr int kMostLinks = 40;  ///< as the kernel follows

/// Errno of the call before.
Error failed(const std::string& target) {
  const int number = errno;
  const bool full = number == ENOSPC || number == EDQUOT;
  const std::string advice = full ? "free space there or name a file elsewhere"
                                  : errno_advice(number, number == ENOENT ? folder_of(target) : target);
  return {ErrorKind::io, "cannot write " + target + ": " + errno_text(number) + "; " + advice};
}

/// A new file beside another, which is removed unless it was renamed.
class FileBeside {
 public:
  static Result<FileBeside> create(const std::string& target);
  FileBeside(FileBeside&& other) noexcept
      : fd_(std::move(other.fd_)), path_(std::exchange(other.path_, {})), target_(std::move(other.target_)) {}
  FileBeside& operator=(FileBeside&&) = delete;
  ~FileBeside() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  Result<void> write(std::string_view bytes);
  Result<void> take_place();

 private:
  FileBeside(UniqueFd fd, std::string path, std::string target)
      : fd_(std::move(fd)), path_(std::move(path)), target_(std::move(target)) {}

  UniqueFd fd_;
  std::string path_;  ///< empty once it was renamed
  std::string target_;
};

Result<FileBeside> FileBeside::create(const std::string& target) {
  std::random_device source;
  for (int n_tries = 1;; ++n_tries) {
    char end[16];
    std::snprintf(end, sizeof end, ".%08x.tmp", source());
    const std::string path = target + end;
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kByUmask));
    if (fd) return FileBeside(std::move(fd), path, target);
    if (errno != EEXIST || n_tries == kMostTries) return failed(target);
  }
}

Result<void> FileBeside::write(std::string_view bytes) {
  const SizeSignalBlock no_signal;
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(target_);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return ::fdatasync(fd_.get()) == 0 ? Result<void>() : failed(target_);
}

Result<void> FileBeside::take_place() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) return failed(target_);
  path_.clear();
  return {};
}

/// The file that `path` leads to, links followed. Errors: io for what is no regular file.
Result<std::string> target_of(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return Error{ErrorKind::io, "cannot write " + path + ": it is " +
                                    (S_ISDIR(facts.st_mode) ? "a folder" : "no regular file") + "; name a file"};
  return followed(path);
}

}  // namespace

std::string followed(const std::string& path) {
  std::filesystem::path target = path;
  std::error_code refused;
  for (int n_links = 0; n_links < kMostLinks && std::filesystem::is_symlink(target, refused); ++n_links)
    target = target.parent_path() / std::filesystem::read_symlink(target, refused);  // an absolute one stands alone
  return target.string();
}

Result<void> check_whole_file(const std::string& path) {
  CASTOR_ASSIGN(const std::string target, target_of(path));
  CASTOR_TRY(FileBeside::create(target));
  return {};
}

Result<void> write_whole_file(const std::string& path, std::string_view bytes) {
  CASTOR_ASSIGN(const std::string target, target_of(path));
  CASTOR_ASSIGN(FileBeside file, FileBeside::create(target));
  CASTOR_TRY(file.write(bytes));
  return file.take_place();
}

}  // namespace castor
