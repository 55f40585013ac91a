// SPDX-License-Identifier: Apache-2.0
#include <castor/io/direct_file.h>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>

#include "file_lock.h"
#include "engine/io_error.h"
#include "named_file.h"
#include "range_transfer.h"
#include "size_signal.h"

namespace castor {
namespace {

constexpr int kNoFollow = O_CLOEXEC | O_NOFOLLOW;

/// How often a file that vanished before it was locked is opened again.
constexpr int kMostTries = 100;

/// The alignment that is assumed where the kernel is too old to report it (before 6.1).
constexpr std::uint64_t kUsualMemoryAlignBytes = 512;
constexpr std::uint64_t kUsualOffsetAlignBytes = 4096;

/// Creates a file and unlinks it at once. It is locked in between, so that no other process takes it for the leftover
/// of a dead run.
UniqueFd open_unlinked(const std::string& folder) {
  std::string path = folder + "/.castor-XXXXXX";
  UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
  if (!fd) return fd;
  (void)lock_or_holder(fd.get(), FileLock::exclusive);
  ::unlink(path.c_str());
  return fd;
}

/// Calls fallocate until no signal interrupts it; 0 or an errno. A file system without the call counts as success.
int call_fallocate(int fd, int mode, std::uint64_t offset_bytes, std::uint64_t n_bytes) {
  const SizeSignalBlock no_signal;
  int answer = 0;
  do {
    answer = ::fallocate(fd, mode, static_cast<off_t>(offset_bytes), static_cast<off_t>(n_bytes));
  } while (answer != 0 && errno == EINTR);
  return answer == 0 || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
}

int call_truncate(int fd, std::uint64_t n_bytes) {
  const SizeSignalBlock no_signal;
  int answer = 0;
  do {
    answer = ::ftruncate(fd, static_cast<off_t>(n_bytes));
  } while (answer != 0 && errno == EINTR);
  return answer == 0 ? 0 : errno;
}

/// The errors of open where the folder's file system has no unnamed files.
bool lacks_unnamed(int error_number) { return error_number == EOPNOTSUPP || error_number == EISDIR; }

struct stat facts_of(int fd) {
  struct stat facts {};
  ::fstat(fd, &facts);
  return facts;
}

Error in_use(const std::string& what, const std::string& holder) {
  return {ErrorKind::io, what + ": " + holder + " has it open; wait until that ends or name another file"};
}

Error open_error(const std::string& path, int flags, const std::string& what, int error_number) {
  const bool creates = (flags & O_CREAT) != 0;
  if (error_number == ENOENT && !creates)
    return {ErrorKind::io, what + ": there is no such file; name one that exists"};
  return file_error(what, path, error_number);
}

std::string no_direct_io(const std::string& folder, const std::string& why) {
  return "the file system of " + folder + " does not take direct I/O (" + why +
         "), so its bytes go through the page cache, which no budget counts";
}

}  // namespace

DirectFile::DirectFile(UniqueFd fd, std::string path, std::string folder)
    : fd_(std::move(fd)), path_(std::move(path)), folder_(std::move(folder)) {}

Result<DirectFile> DirectFile::open(const std::string& path, Mode mode) {
  if (mode == Mode::write) return open_locked(path, O_RDWR | O_CREAT, "cannot open " + path + " to write");
  return open_locked(path, O_RDONLY, "cannot open " + path);
}

/// A process that removes leftovers may remove a new file between its opening and its locking; then this tries again.
Result<DirectFile> DirectFile::open_locked(const std::string& path, int flags, const std::string& what) {
  for (int n_tries = 0; n_tries < kMostTries; ++n_tries) {
    UniqueFd fd(::open(path.c_str(), kNoFollow | flags, kByUmask));
    if (!fd) return open_error(path, flags, what, errno);
    const auto facts = facts_of(fd.get());
    if (S_ISREG(facts.st_mode)) {
      const auto kind = flags == O_RDONLY ? FileLock::shared : FileLock::exclusive;
      if (const auto holder = lock_or_holder(fd.get(), kind)) return in_use(what, *holder);
      if (facts_of(fd.get()).st_nlink == 0 && facts.st_nlink != 0) continue;
    }
    DirectFile file(std::move(fd), path, folder_of(path));
    file.use_direct();
    return file;
  }
  return Error{ErrorKind::io, what + ": another process removes it as soon as it is created; stop that process"};
}

Result<DirectFile> DirectFile::create_unnamed(const std::string& folder) {
  const std::string what = "cannot create a file in folder " + folder;
  UniqueFd fd(::open(folder.c_str(), O_CLOEXEC | O_TMPFILE | O_RDWR, kOwnerOnly));
  const int refusal = fd ? 0 : errno;
  const bool never_named = static_cast<bool>(fd);
  if (!fd && !lacks_unnamed(refusal)) return path_error(what, folder, refusal);
  if (!fd) fd = open_unlinked(folder);
  if (!fd && errno == ENOENT && ::access(folder.c_str(), F_OK) == 0)  // as in /proc
    return Error{ErrorKind::io, what + ": its file system takes no new files; name a folder on another"};
  if (!fd) return path_error(what, folder, errno);
  DirectFile file(std::move(fd), folder + "/(unnamed file)", folder);
  file.never_named_ = never_named;
  file.use_direct();
  return file;
}

/// Sets O_DIRECT after opening: a file system that refuses it in open may have created the file already.
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
  return {IoOp::read, fd(), path_, offset_bytes, bytes};
}

IoRequest DirectFile::write_request(std::uint64_t offset_bytes, BufferView bytes) const {
  return {IoOp::write, fd(), path_, offset_bytes, bytes};
}

IoRequest DirectFile::sync_request() const { return {IoOp::sync, fd(), path_, 0, {}}; }

Result<void> DirectFile::read_bytes(std::uint64_t offset_bytes, BufferView bytes) const {
  return RangeTransfer(IoOp::read, *this, offset_bytes, bytes).run();
}

Result<void> DirectFile::write_bytes(std::uint64_t offset_bytes, BufferView bytes) const {
  return RangeTransfer(IoOp::write, *this, offset_bytes, bytes).run();
}

Result<void> DirectFile::reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) const {
  int error_number = call_fallocate(fd(), 0, offset_bytes, n_bytes);
  const auto end_bytes = offset_bytes + n_bytes;
  if (error_number == 0 && static_cast<std::uint64_t>(facts_of(fd()).st_size) < end_bytes)
    error_number = call_truncate(fd(), end_bytes);  // a file system without fallocate
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

Result<void> DirectFile::cut(std::uint64_t n_bytes) const {
  CASTOR_ASSIGN(const auto size, size_bytes());
  const int error_number = size > n_bytes ? call_truncate(fd(), n_bytes) : 0;
  if (error_number == 0) return {};
  return path_error("cannot cut " + path_ + " down to " + format_bytes(n_bytes), folder_, error_number);
}

Result<std::uint64_t> DirectFile::size_bytes() const {
  struct stat facts {};
  if (::fstat(fd(), &facts) != 0) return path_error("cannot look at " + path_, path_, errno);
  return static_cast<std::uint64_t>(facts.st_size);
}

}  // namespace castor
