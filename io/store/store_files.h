// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <castor/io/folder.h>
#include <castor/io/tensor_store.h>
#include <castor/io/unique_fd.h>

#include "files/folder_ops.h"
#include "files/leftovers.h"
#include "manifest.h"

namespace castor {

/// The files of a durable store: the locks on its folders, the names of its data files, and its manifest.
///
/// Threads: one at a time.
class StoreFiles {
 public:
  /// Locks the folders and reads the manifest that one of them has; where none has one, names new data files. Removes
  /// leftovers of runs that died. `ops` must outlive this.
  /// Errors: io, where another process has a folder, the manifest is damaged or names files that are not its store's,
  /// or a data file is in none of the folders; usage, where more folders are named than the store has.
  static Result<std::unique_ptr<StoreFiles>> open(const std::vector<std::string>& folders, FolderOps& ops);
  /// The same for readers: nothing is written or removed. Errors: also usage, where no folder has a manifest.
  static Result<std::unique_ptr<StoreFiles>> open_to_read(const std::vector<std::string>& folders, FolderOps& ops);

  /// The manifest of the last commit; nothing for a new store.
  const std::optional<Manifest>& found() const { return found_; }
  /// The folders in the order of the volumes, and the data file of each.
  const std::vector<std::string>& folders() const { return folders_; }
  std::vector<std::string> names() const;
  /// A sentence for each folder where leftovers were removed.
  const std::vector<std::string>& notices() const { return notices_; }
  /// Makes the names of the data files durable. Requires: the files exist.
  Result<void> sync_names() const;

  /// A manifest without values.
  Manifest blank_manifest(std::uint64_t step, std::uint64_t block_bytes, bool checksums) const;
  /// Replaces the last manifest by `manifest`, in one instant. Errors: io.
  Result<void> write(const Manifest& manifest);
  /// After a write that failed: whether the manifest on the drive is still that of `step` (nothing: still none).
  bool still_holds(std::optional<std::uint64_t> step) const;

 private:
  StoreFiles(std::vector<std::string> folders, FolderOps& ops) : folders_(std::move(folders)), ops_(&ops) {}
  Result<void> lock_folders(FileLock kind);
  Result<std::optional<Manifest>> read(const std::string& folder) const;
  Result<void> find_manifest();
  Result<void> check_names() const;
  Result<void> order_folders();
  Result<void> check_no_part_of_another() const;
  Result<std::string> folder_of(const ManifestVolume& volume) const;
  Result<void> name_volumes();
  Result<std::set<std::string>> dead_stores() const;
  enum class FirstFiles : std::uint8_t { keep, remove };
  Result<std::vector<std::string>> names_to_keep(const std::string& folder, const std::set<std::string>& dead,
                                                 FirstFiles firsts) const;
  Result<void> remove_dead(const std::set<std::string>& dead, FirstFiles firsts, std::vector<Leftovers>& removed) const;
  Result<void> remove_leftovers_of_dead_runs();
  Result<void> make_first_file() const;

  std::vector<std::string> folders_;
  FolderOps* ops_;  // borrowed
  std::vector<UniqueFd> locks_;
  std::string manifest_folder_;
  std::optional<Manifest> found_;
  std::uint64_t store_id_ = 0;
  std::vector<ManifestVolume> volumes_;
  std::vector<std::string> notices_;
};

/// Sorts the values of `manifest` and sets the ends of its volumes.
void complete_manifest(Manifest& manifest);

}  // namespace castor
