// SPDX-License-Identifier: Apache-2.0
#include <castor/io/file_beside.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <utility>

#include "cannot_write.h"
#include "named_file.h"

namespace castor {
namespace {

constexpr int kMostTries = 100;
constexpr int kMostLinks = 40;  ///< as the kernel follows

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

FileBeside::FileBeside(UniqueFd fd, std::string path, std::string target)
    : fd_(std::move(fd)), path_(std::move(path)), target_(std::move(target)) {}
FileBeside::FileBeside(FileBeside&& other) noexcept
    : fd_(std::move(other.fd_)), path_(std::exchange(other.path_, {})), target_(std::move(other.target_)) {}
FileBeside::~FileBeside() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<FileBeside> FileBeside::create(const std::string& path) {
  CASTOR_ASSIGN(const std::string target, target_of(path));
  std::random_device source;
  for (int n_tries = 1;; ++n_tries) {
    char end[16];
    std::snprintf(end, sizeof end, ".%08x.tmp", source());
    const std::string beside = target + end;
    UniqueFd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kByUmask));
    if (fd) return FileBeside(std::move(fd), beside, target);
    if (errno != EEXIST || n_tries == kMostTries) return cannot_write(target);
  }
}

Result<void> FileBeside::take_place() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) return cannot_write(target_);
  path_.clear();
  return {};
}

}  // namespace castor
