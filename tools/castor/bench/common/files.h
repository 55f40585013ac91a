// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/io/unique_fd.h>
#include <castor/memory/result.h>

#include "region.h"

namespace castor::bench {

/// The descriptors of this process that are files without a name: what a store opens.
std::vector<int> unnamed_files();

/// The region that `files` make after `n_bytes` were written to them together, from their beginnings on: as many bytes
/// of each, in whole `grain_bytes`, and none that were never written, which cost a drive nothing to read.
Region region_of(std::vector<int> files, std::uint64_t n_bytes, std::uint64_t grain_bytes);

/// What was written to `region` lies on the drive, so that who comes next finds it at rest.
void flush(const Region& region);

/// Bytes of `region` that the page cache holds; 0 where the kernel does not say.
std::uint64_t cached_bytes(const Region& region);

/// The page cache of the whole machine, which every process makes grow and shrink.
std::uint64_t machine_cache_bytes();

/// Files with names in `folders`, as large as those of a region, for programs that cannot open files without one. Their
/// room is set aside; they are gone with this object.
class NamedFiles {
 public:
  /// Errors: io, as path_error says: which folder, why.
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
