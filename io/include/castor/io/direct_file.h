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
/// Threads: all const members from any thread.
class DirectFile {
 public:
  enum class Mode : std::uint8_t {
    read,   ///< an existing file, to read
    write,  ///< an existing or new file, to read and write
  };

  /// Opens `path`. Errors: io, one sentence with what to do.
  static Result<DirectFile> open(const std::string& path, Mode mode);

  /// A file in `folder` without a name, to read and write: it vanishes with this object, however the process ends.
  ///
  /// Made with O_TMPFILE; where the file system lacks that, a named file is created and unlinked at once.
  /// Errors: io, where the folder is missing, is no folder, is not writable or is read-only.
  static Result<DirectFile> create_unnamed(const std::string& folder);

  int fd() const { return fd_.get(); }
  /// For messages; an unnamed file goes by its folder.
  const std::string& path() const { return path_; }
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

  /// Makes the drive set room aside for these bytes, so that writing them cannot run out of it. Where the file system
  /// has no such call nothing happens. Errors: io, with the bytes asked for and those free.
  Result<void> reserve(std::uint64_t offset_bytes, std::uint64_t n_bytes) const;
  /// Gives the room of these bytes back to the file system; they read as zeros from then on. Where the file system has
  /// no such call nothing happens. Errors: io.
  Result<void> punch(std::uint64_t offset_bytes, std::uint64_t n_bytes) const;

 private:
  DirectFile(UniqueFd fd, std::string path, std::string folder);
  void use_direct();
  void find_alignment();
  void use_buffered(const std::string& reason);

  UniqueFd fd_;
  std::string path_;
  std::string folder_;
  std::string fallback_reason_;
  std::uint64_t memory_align_bytes_ = 1;
  std::uint64_t offset_align_bytes_ = 1;
  bool never_named_ = false;
};

}  // namespace castor
