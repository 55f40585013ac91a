// SPDX-License-Identifier: Apache-2.0
#include <castor/io/direct_file.h>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>

#include "io_error.h"

namespace castor {
namespace {

constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW;
constexpr mode_t kOwnerOnly = 0600;

/// What a drive wants where the kernel is too old to say (before 6.1).
constexpr std::uint64_t kUsualMemoryAlignBytes = 512;
constexpr std::uint64_t kUsualOffsetAlignBytes = 4096;

/// A file with a name that is gone before anybody else could see it for long.
UniqueFd open_unlinked(const std::string& folder) {
  std::string path = folder + "/.castor-XXXXXX";
  UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
  if (fd) ::unlink(path.c_str());
  return fd;
}

/// Calls fallocate until no signal interrupts it; 0 or an errno. A file system without the call counts as success.
int call_fallocate(int fd, int mode, std::uint64_t offset_bytes, std::uint64_t n_bytes) {
  int answer = 0;
  do {
    answer = ::fallocate(fd, mode, static_cast<off_t>(offset_bytes), static_cast<off_t>(n_bytes));
  } while (answer != 0 && errno == EINTR);
  return answer == 0 || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
}

/// What open answers where the folder's file system has no unnamed files.
bool lacks_unnamed(int error_number) { return error_number == EOPNOTSUPP || error_number == EISDIR; }

std::string no_direct_io(const std::string& folder, const std::string& why) {
  return "the file system of " + folder + " does not take direct I/O (" + why +
         "), so its bytes go through the page cache, which no budget counts";
}

}  // namespace

DirectFile::DirectFile(UniqueFd fd, std::string path, std::string folder)
    : fd_(std::move(fd)), path_(std::move(path)), folder_(std::move(folder)) {}

Result<DirectFile> DirectFile::open(const std::string& path, Mode mode) {
  UniqueFd fd(::open(path.c_str(), kFlags | (mode == Mode::read ? O_RDONLY : O_RDWR | O_CREAT), kOwnerOnly));
  const int error_number = errno;
  auto folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  if (!fd && error_number == ENOENT && mode == Mode::read)
    return Error{ErrorKind::io, "cannot open " + path + ": there is no such file; name one that exists"};
  if (!fd) return path_error("cannot open " + path, error_number == ENOENT ? folder : path, error_number);
  DirectFile file(std::move(fd), path, std::move(folder));
  file.use_direct();
  return file;
}

Result<DirectFile> DirectFile::create_unnamed(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), kFlags | O_TMPFILE | O_RDWR, kOwnerOnly));
  const bool never_named = static_cast<bool>(fd);
  if (!fd && lacks_unnamed(errno)) fd = open_unlinked(folder);
  if (!fd) return path_error("cannot create a file in folder " + folder, folder, errno);
  DirectFile file(std::move(fd), folder + "/(unnamed file)", folder);
  file.never_named_ = never_named;
  file.use_direct();
  return file;
}

/// Direct I/O is switched on after opening: a file system that refuses O_DIRECT in open may have created the file
/// already.
void DirectFile::use_direct() {
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (::fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) == 0)
    find_alignment();
  else
    use_buffered("O_DIRECT: " + errno_text(errno));
}

void DirectFile::find_alignment() {
  memory_align_bytes_ = kUsualMemoryAlignBytes;
  offset_align_bytes_ = kUsualOffsetAlignBytes;
  struct statx facts {};
  if (::statx(fd_.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) != 0 || (facts.stx_mask & STATX_DIOALIGN) == 0)
    return;
  if (facts.stx_dio_offset_align == 0) return use_buffered("statx gives no alignment for it");
  memory_align_bytes_ = facts.stx_dio_mem_align;
  offset_align_bytes_ = facts.stx_dio_offset_align;
  const auto coarsest = std::max(memory_align_bytes_, offset_align_bytes_);
  if (coarsest > kBufferAlignBytes) use_buffered("it wants an alignment of " + format_bytes(coarsest));
}

void DirectFile::use_buffered(const std::string& reason) {
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT);
  fallback_reason_ = no_direct_io(folder_, reason);
  memory_align_bytes_ = 1;
  offset_align_bytes_ = 1;
}

IoRequest DirectFile::read_request(std::uint64_t offset_bytes, BufferView bytes) const {
  return {IoOp::read, fd(), path_, offset_bytes, bytes, kNoDeadline};
}

IoRequest DirectFile::write_request(std::uint64_t offset_bytes, BufferView bytes) const {
  return {IoOp::write, fd(), path_, offset_bytes, bytes, kNoDeadline};
}

IoRequest DirectFile::sync_request() const { return {IoOp::sync, fd(), path_, 0, {}, kNoDeadline}; }

Result<void> DirectFile::reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) const {
  const int error_number = call_fallocate(fd(), 0, offset_bytes, n_bytes);
  if (error_number == 0) return {};
  const auto free = available_bytes(folder_);
  return path_error("cannot set " + format_bytes(n_bytes) + " aside at offset " + std::to_string(offset_bytes) +
                        " of " + path_ + (free.ok() ? ", where " + format_bytes(*free) + " are free" : std::string()),
                    folder_, error_number);
}

Result<void> DirectFile::punch(std::uint64_t offset_bytes, std::uint64_t n_bytes) const {
  const int error_number = call_fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_bytes, n_bytes);
  if (error_number == 0) return {};
  return path_error(
      "cannot give " + format_bytes(n_bytes) + " at offset " + std::to_string(offset_bytes) + " of " + path_ + " back",
      folder_, error_number);
}

}  // namespace castor
