// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <castor/io/io_request.h>
#include <castor/io/unique_fd.h>
#include <castor/memory/result.h>

namespace castor {

/// A file whose bytes go straight between memory and drive (O_DIRECT), past the page cache.
///
/// Why past it: bytes that a runtime moves to NVMe to save host memory would return as page cache, outside every
/// budget. Where a file system does not take direct I/O the file is opened buffered and `fallback_reason` says so.
/// The file is created with mode 0600, symbolic links are not followed, and it is closed on exec.
///
/// A file has one owner: opening it to write takes an exclusive lock (flock) until the file is closed; readers share
/// one. The lock is advisory: it binds only code that asks for it, in this process too. Only regular files are locked.
///
/// Threads: all const members from any thread.
class DirectFile {
 public:
  enum class Mode : std::uint8_t {
    read,   ///< an existing file, to read
    write,  ///< an existing or new file, to read and write
  };

  /// Opens `path` and locks it. Errors: io, one sentence with advice; where another owner has the file, it names that
  /// one.
  static Result<DirectFile> open(const std::string& path, Mode mode);

  /// A file in `folder` without a name, to read and write: it vanishes with this object, however the process ends.
  ///
  /// Made with O_TMPFILE; where the file system lacks that, a named file is created, locked and unlinked at once
  /// (`.castor-XXXXXX`; a kill may leave that name behind, and remove_leftovers removes it).
  /// Errors: io, where the folder is missing, is no folder, is not writable or is read-only.
  static Result<DirectFile> create_unnamed(const std::string& folder);

  int fd() const { return fd_.get(); }
  /// For messages; that of an unnamed file is made of its folder.
  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }
  /// Whether transfers bypass the page cache.
  bool direct() const { return fallback_reason_.empty(); }
  /// One sentence that says why they do not; empty where they do.
  const std::string& fallback_reason() const { return fallback_reason_; }
  /// Whether the file never had a name (O_TMPFILE), so that not even a kill between two calls could leave it behind.
  bool never_named() const { return never_named_; }
  /// Addresses must be multiples of this; 1 for a buffered file. At most kBufferAlignBytes.
  std::uint64_t memory_align_bytes() const { return memory_align_bytes_; }
  /// Offsets and lengths must be multiples of this; 1 for a buffered file. At most kBufferAlignBytes.
  std::uint64_t offset_align_bytes() const { return offset_align_bytes_; }

  /// The request that moves `bytes` from or to `offset_bytes` of this file, which must outlive it, unmoved.
  IoRequest read_request(std::uint64_t offset_bytes, BufferView bytes) const;
  IoRequest write_request(std::uint64_t offset_bytes, BufferView bytes) const;
  IoRequest sync_request() const;

  /// Reads `bytes` from, or writes them to, `offset_bytes`: any offset, length and address, on the calling thread.
  ///
  /// Whole sectors move straight. A sector that the range covers in part goes through a bounce page: it is read,
  /// changed and written, so that the bytes beside the range keep their values. The file becomes no longer than the
  /// range demands. Bytes at an unaligned address all go through the bounce page.
  /// Errors: io; a read beyond the end of the file is one.
  /// Threads: any; no other thread may write in the sectors at the ends of the range meanwhile, nor beyond the file's
  /// end.
  Result<void> read_bytes(std::uint64_t offset_bytes, BufferView bytes) const;
  Result<void> write_bytes(std::uint64_t offset_bytes, BufferView bytes) const;

  /// Has the file system set room aside for these bytes, so that writing them cannot run out of room, and extends the
  /// file to their end. A file system without such a call only extends the file. Errors: io, with the bytes asked for
  /// and those free; some may be set aside all the same. A limit on file sizes (RLIMIT_FSIZE) is such an error, and no
  /// signal.
  Result<void> reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) const;
  /// Gives the room of these bytes back to the file system; they read as zeros from then on. On a file system without
  /// such a call nothing happens. Errors: io.
  Result<void> punch(std::uint64_t offset_bytes, std::uint64_t n_bytes) const;
  /// Truncates the file to `n_bytes` where it is longer. Errors: io.
  Result<void> cut(std::uint64_t n_bytes) const;
  /// The file's length now. Errors: io.
  Result<std::uint64_t> size_bytes() const;

  /// Switches to the page cache, for `reason` (a clause): for a drive that took O_DIRECT when the file was opened and
  /// refuses a transfer. Requires: no request is in flight.
  void use_buffered(const std::string& reason);

 private:
  DirectFile(UniqueFd fd, std::string path, std::string folder);
  static Result<DirectFile> open_locked(const std::string& path, int flags, const std::string& what);
  void use_direct();
  void find_alignment();

  UniqueFd fd_;
  std::string path_;
  std::string folder_;
  std::string fallback_reason_;
  std::uint64_t memory_align_bytes_ = 1;
  std::uint64_t offset_align_bytes_ = 1;
  bool never_named_ = false;
};

}  // namespace castor
