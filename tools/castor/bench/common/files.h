// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/io/unique_fd.h>
#include <castor/memory/result.h>

#include "region.h"

namespace castor::bench {

/// The descriptors of this process that are unnamed files, as a store opens them.
std::vector<int> unnamed_files();

/// The region of `files` after `n_bytes` were written to all of them together, each from its beginning: the same number
/// of bytes of each, in whole `grain_bytes`, without bytes that were never written, which a drive reads at no cost.
Region region_of(std::vector<int> files, std::uint64_t n_bytes, std::uint64_t grain_bytes);

/// Flushes the written bytes of `region` to the drive, so that the next measurement finds the drive idle.
void flush(const Region& region);

/// Bytes of `region` in the page cache; 0 if the kernel does not report it.
std::uint64_t cached_bytes(const Region& region);

/// The page cache of the whole machine, which every process changes.
std::uint64_t machine_cache_bytes();

/// Named files in `folders`, as large as those of a region, for programs that cannot open unnamed files. Their space is
/// reserved; the destructor removes them.
class NamedFiles {
 public:
  /// Errors: io, in the words of path_error: the folder and the reason.
  static Result<NamedFiles> create(const std::vector<std::string>& folders, std::uint64_t file_bytes);
  NamedFiles(NamedFiles&&) = default;
  NamedFiles& operator=(NamedFiles&&) = default;
  ~NamedFiles();

  const std::vector<std::string>& paths() const { return paths_; }

 private:
  NamedFiles() = default;
  std::vector<std::string> paths_;
  std::vector<UniqueFd> files_;
};

}  // namespace castor::bench
