// SPDX-License-Identifier: Apache-2.0
#include "store_files.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <string_view>
#include <utility>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>
#include <castor/memory/text.h>

#include "store_format.h"

namespace castor {
namespace {

constexpr std::uint64_t kMaxManifestBytes = kGiB;

std::uint64_t random_id() {
  std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

constexpr std::size_t kIdLetters = 16;

std::string id_text(std::uint64_t store_id) {
  char text[kIdLetters + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(store_id));
  return text;
}

/// `castor-0123456789abcdef-0.data`
std::string data_name(const std::string& store, std::size_t volume) {
  return std::string(kDataPrefix) + store + "-" + std::to_string(volume) + std::string(kDataSuffix);
}

/// The store of a data file of this name; nothing where it is the name of no data file.
std::optional<std::string> store_of(const std::string& name) {
  const std::size_t id_end = kDataPrefix.size() + kIdLetters;
  if (!has_affixes(name, kDataPrefix, kDataSuffix) || name.size() < id_end + kDataSuffix.size()) return {};
  if (name[id_end] != '-') return {};
  return name.substr(kDataPrefix.size(), kIdLetters);
}

}  // namespace

Result<std::unique_ptr<StoreFiles>> StoreFiles::open(const std::vector<std::string>& folders, FolderOps& ops) {
  if (folders.empty())
    return Error{ErrorKind::usage, "a tensor store needs at least one folder; name one with `nvme`", "nvme"};
  std::unique_ptr<StoreFiles> files(new StoreFiles(folders, ops));
  CASTOR_TRY(files->lock_folders(FileLock::exclusive));
  CASTOR_TRY(files->find_manifest());
  CASTOR_TRY(files->found_ ? files->order_folders() : files->name_volumes());
  CASTOR_TRY(files->remove_leftovers_of_dead_runs());
  if (!files->found_) CASTOR_TRY(files->make_first_file());
  return files;
}

Result<std::unique_ptr<StoreFiles>> StoreFiles::open_to_read(const std::vector<std::string>& folders, FolderOps& ops) {
  std::unique_ptr<StoreFiles> files(new StoreFiles(folders, ops));
  CASTOR_TRY(files->lock_folders(FileLock::shared));
  CASTOR_TRY(files->find_manifest());
  if (!files->found_)
    return Error{ErrorKind::usage, "there is no store in " + join_list(folders) + "; name the folders of one"};
  CASTOR_TRY(files->order_folders());
  return files;
}

Result<void> StoreFiles::lock_folders(FileLock kind) {
  for (const auto& folder : folders_) {
    CASTOR_ASSIGN(UniqueFd lock, lock_folder(folder, kind));
    locks_.push_back(std::move(lock));
  }
  return {};
}

Result<std::optional<Manifest>> StoreFiles::read(const std::string& folder) const {
  const auto path = folder + "/" + kManifestName;
  CASTOR_ASSIGN(const auto bytes, ops_->read_file(path, kMaxManifestBytes));
  if (!bytes) return std::optional<Manifest>();
  CASTOR_ASSIGN(Manifest manifest, decode_manifest(*bytes, path));
  return std::optional(std::move(manifest));
}

Result<void> StoreFiles::find_manifest() {
  manifest_folder_ = folders_.front();
  for (const auto& folder : folders_) {
    CASTOR_ASSIGN(auto manifest, read(folder));
    if (!manifest) continue;
    if (found_)
      return Error{ErrorKind::usage,
                   manifest_folder_ + " and " + folder + " hold a store each; name the folders of one"};
    found_ = std::move(manifest);
    manifest_folder_ = folder;
  }
  return {};
}

Result<std::string> StoreFiles::folder_of(const ManifestVolume& volume) const {
  for (const auto& folder : folders_) {
    CASTOR_ASSIGN(const auto names, ops_->list(folder));
    if (std::binary_search(names.begin(), names.end(), volume.file_name)) return folder;
  }
  return Error{ErrorKind::io, "the store of " + manifest_folder_ + "/" + kManifestName + " keeps data in " +
                                  volume.file_name + ", which none of the folders named has; name the folder it is in"};
}

/// A manifest may come from anywhere, and the store writes, cuts and punches the files that it names.
Result<void> StoreFiles::check_names() const {
  for (std::size_t volume = 0; volume < volumes_.size(); ++volume) {
    const auto expected = data_name(id_text(store_id_), volume);
    if (volumes_[volume].file_name == expected) continue;
    return Error{ErrorKind::io, manifest_folder_ + "/" + kManifestName + " calls its data file " +
                                    volumes_[volume].file_name + ", which a store would call " + expected +
                                    "; restore a copy of the store's files, or remove that manifest to start anew"};
  }
  return {};
}

/// The folders may be named in another order, or be mounted elsewhere, than when the store was created.
Result<void> StoreFiles::order_folders() {
  store_id_ = found_->store_id;
  volumes_ = found_->volumes;
  CASTOR_TRY(check_names());
  if (folders_.size() > volumes_.size())
    return Error{ErrorKind::usage, "the store of " + manifest_folder_ + "/" + kManifestName + " has " +
                                       std::to_string(volumes_.size()) + " folders, " +
                                       std::to_string(folders_.size()) + " are named; name those it was made with"};
  std::vector<std::string> ordered;
  for (const auto& volume : volumes_) {
    CASTOR_ASSIGN(auto folder, folder_of(volume));
    ordered.push_back(std::move(folder));
  }
  folders_ = std::move(ordered);
  return {};
}

/// Errors: usage, where a folder has a further data file of another store: that one could not be opened any more.
Result<void> StoreFiles::check_no_part_of_another() const {
  CASTOR_ASSIGN(const auto dead, dead_stores());
  for (const auto& folder : folders_) {
    CASTOR_ASSIGN(const auto names, ops_->list(folder));
    for (const auto& name : names)
      if (const auto store = store_of(name); store && dead.count(*store) == 0)
        return Error{ErrorKind::usage, "folder " + folder + " keeps a part of a store, " + name +
                                           ", whose manifest is in another folder; name all folders of that store, or "
                                           "another folder; where that store is gone, remove the file"};
  }
  return {};
}

Result<void> StoreFiles::name_volumes() {
  CASTOR_TRY(check_no_part_of_another());
  store_id_ = random_id();
  for (std::size_t volume = 0; volume < folders_.size(); ++volume)
    volumes_.push_back({data_name(id_text(store_id_), volume), random_id(), 0});
  return {};
}

/// The stores whose data files can be removed. A store's manifest is beside its first data file: a first data file
/// without a manifest belongs to a run that ended before its first commit. Other data files may belong to a store at
/// rest whose manifest is in a folder that is not named now.
Result<std::set<std::string>> StoreFiles::dead_stores() const {
  std::set<std::string> dead;
  for (const auto& folder : folders_) {
    CASTOR_ASSIGN(const auto names, ops_->list(folder));
    for (const auto& name : names)
      if (const auto store = store_of(name); store && name == data_name(*store, 0)) dead.insert(*store);
  }
  dead.erase(id_text(store_id_));
  return dead;
}

/// The names in `folder` to keep: this store's, and those of stores that may be alive.
Result<std::vector<std::string>> StoreFiles::names_to_keep(const std::string& folder, const std::set<std::string>& dead,
                                                           FirstFiles firsts) const {
  auto keep = names();
  CASTOR_ASSIGN(const auto names, ops_->list(folder));
  for (const auto& name : names) {
    const auto store = store_of(name);
    if (!store || *store == id_text(store_id_)) continue;
    const bool stays = firsts == FirstFiles::keep && name == data_name(*store, 0);
    if (stays || dead.count(*store) == 0) keep.push_back(name);
  }
  return keep;
}

Result<void> StoreFiles::remove_dead(const std::set<std::string>& dead, FirstFiles firsts,
                                     std::vector<Leftovers>& removed) const {
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    CASTOR_ASSIGN(const auto keep, names_to_keep(folders_[i], dead, firsts));
    CASTOR_ASSIGN(const auto gone, remove_leftovers(folders_[i], keep));
    removed[i].n_files += gone.n_files;
    removed[i].n_bytes += gone.n_bytes;
  }
  return {};
}

/// The first data file of a dead store shows that its other data files can be removed (dead_stores). So a store creates
/// it before the others, and this removes it only when their removal is durable: else a power cut in between could
/// leave data files that no run may ever remove.
Result<void> StoreFiles::remove_leftovers_of_dead_runs() {
  CASTOR_ASSIGN(const auto dead, dead_stores());
  std::vector<Leftovers> removed(folders_.size());
  if (folders_.size() > 1 && !dead.empty()) {
    CASTOR_TRY(remove_dead(dead, FirstFiles::keep, removed));
    CASTOR_TRY(sync_names());
  }
  CASTOR_TRY(remove_dead(dead, FirstFiles::remove, removed));
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    if (removed[i].n_files == 0) continue;
    notices_.push_back("removed " + std::to_string(removed[i].n_files) + " files (" + format_bytes(removed[i].n_bytes) +
                       ") that a run which ended early had left in " + folders_[i]);
  }
  return {};
}

Result<void> StoreFiles::make_first_file() const {
  if (folders_.size() == 1) return {};
  CASTOR_TRY(ops_->write_file(folders_.front() + "/" + volumes_.front().file_name, {}));
  return ops_->sync_folder(folders_.front());
}

std::vector<std::string> StoreFiles::names() const {
  std::vector<std::string> names;
  for (const auto& volume : volumes_) names.push_back(volume.file_name);
  return names;
}

Result<void> StoreFiles::sync_names() const {
  for (const auto& folder : folders_) CASTOR_TRY(ops_->sync_folder(folder));
  return {};
}

Manifest StoreFiles::blank_manifest(std::uint64_t step, std::uint64_t block_bytes, bool checksums) const {
  Manifest manifest;
  manifest.step = step;
  manifest.store_id = store_id_;
  manifest.block_bytes = block_bytes;
  manifest.checksums = checksums;
  manifest.volumes = volumes_;
  return manifest;
}

Result<void> StoreFiles::write(const Manifest& manifest) {
  return replace_file(*ops_, manifest_folder_, kManifestName, encode_manifest(manifest));
}

bool StoreFiles::still_holds(std::optional<std::uint64_t> step) const {
  const auto manifest = read(manifest_folder_);
  if (!manifest.ok()) return false;
  return step ? manifest.value() && manifest.value()->step == *step : !manifest.value();
}

void complete_manifest(Manifest& manifest) {
  std::sort(manifest.values.begin(), manifest.values.end(),
            [](const ManifestValue& a, const ManifestValue& b) { return a.key < b.key; });
  for (std::size_t volume = 0; volume < manifest.volumes.size(); ++volume) {
    auto& end_bytes = manifest.volumes[volume].end_bytes;
    end_bytes = 0;
    for (const auto& value : manifest.values) {
      const Extent& extent = value.extents[volume];
      if (extent.n_bytes > 0) end_bytes = std::max(end_bytes, extent.offset_bytes + extent.n_bytes);
    }
  }
}

}  // namespace castor
