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
/// Why past it: what a runtime moves to NVMe to save host memory would come back as page cache, outside every budget.
/// Where a file system does not take direct I/O the file is opened buffered and `fallback_reason` says so.
/// The file is created with mode 0600, symbolic links are not followed, and it is closed on exec.
///
/// A file has one owner: who opens it to write holds an exclusive lock (flock) until the file is closed, readers share
/// one. It binds those who ask for it, this process included, and only regular files are locked.
///
/// Threads: all const members from any thread.
class DirectFile {
 public:
  enum class Mode : std::uint8_t {
    read,   ///< an existing file, to read
    write,  ///< an existing or new file, to read and write
  };

  /// Opens `path` and locks it. Errors: io, one sentence with what to do; where another owner has it, who that is.
  static Result<DirectFile> open(const std::string& path, Mode mode);

  /// Creates `path`, to read and write, and locks it. Errors: io; also where there is such a name already.
  static Result<DirectFile> create(const std::string& path);

  /// A file in `folder` without a name, to read and write: it vanishes with this object, however the process ends.
  ///
  /// Made with O_TMPFILE; where the file system lacks that, a named file is created, locked and unlinked at once
  /// (`.castor-XXXXXX`; what a kill leaves of it, remove_leftovers finds).
  /// Errors: io, where the folder is missing, is no folder, is not writable or is read-only.
  static Result<DirectFile> create_unnamed(const std::string& folder);

  int fd() const { return fd_.get(); }
  /// For messages; an unnamed file goes by its folder.
  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }
  /// Whether transfers bypass the page cache.
  bool direct() const { return fallback_reason_.empty(); }
  /// One sentence that says why not; empty where they do.
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

  /// Fills `bytes` from `offset_bytes` on, and writes them there: any offset, length and address, on the calling thread.
  ///
  /// What lies on whole sectors goes straight; the sectors that the range covers only in part go through a bounce page:
  /// such a sector is read, changed and written, so that the bytes beside the range stay as they are. A file is not
  /// longer afterwards than the range demands. Bytes at an address that does not suit go through the bounce page whole.
  /// Errors: io; a read beyond the end of the file is one.
  /// Threads: any, but nobody else may write in the sectors at the ends meanwhile, nor beyond the file's end.
  Result<void> read_bytes(std::uint64_t offset_bytes, BufferView bytes) const;
  Result<void> write_bytes(std::uint64_t offset_bytes, BufferView bytes) const;

  /// Makes the drive set room aside for these bytes, so that writing them cannot run out of it; the file reaches to
  /// their end then. Where the file system has no such call that is all. Errors: io, with the bytes asked for and those
  /// free; some may be set aside all the same. A limit on file sizes is such an error, and no signal.
  Result<void> reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) const;
  /// Gives the room of these bytes back to the file system; they read as zeros from then on. Where the file system has
  /// no such call nothing happens. Errors: io.
  Result<void> punch(std::uint64_t offset_bytes, std::uint64_t n_bytes) const;
  /// Makes the file end at `n_bytes` where it is longer. Errors: io.
  Result<void> cut(std::uint64_t n_bytes) const;
  /// Where the file ends now. Errors: io.
  Result<std::uint64_t> size_bytes() const;

  /// Goes through the page cache from now on, for `reason` (a clause): for a drive that took O_DIRECT when the file was
  /// opened and refuses a transfer. Requires: no request is in flight.
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
