// SPDX-License-Identifier: Apache-2.0
#include "support/drives/torn_drive.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>

namespace castor::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSectorBytes = 512;
constexpr std::size_t kForgotten = std::numeric_limits<std::size_t>::max();

ino_t inode_of(const fs::path& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) throw std::runtime_error("cannot look at " + path.string());
  return facts.st_ino;
}

/// "" for the root itself.
std::string relative_to(const std::string& root, const fs::path& path) {
  const auto relative = path.lexically_normal().lexically_relative(root).string();
  return relative == "." ? "" : relative;
}

/// The bytes up to the last one that is not zero: a file may end in a large hole.
std::vector<std::byte> read_up_to_zeros(const fs::path& path) {
  std::string text(fs::file_size(path), '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(text.data(), static_cast<std::streamsize>(text.size())))
    throw std::runtime_error("cannot read " + path.string());
  text.resize(text.find_last_not_of('\0') + 1);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A file while its events are replayed.
class Image {
 public:
  Image(std::vector<std::byte> bytes, std::uint64_t length_bytes)
      : bytes_(std::move(bytes)), length_bytes_(length_bytes) {}

  std::uint64_t length_bytes() const { return length_bytes_; }
  void set_length(std::uint64_t n_bytes) {
    bytes_.resize(std::min<std::uint64_t>(bytes_.size(), n_bytes));
    length_bytes_ = n_bytes;
  }
  void grow(std::uint64_t n_bytes) { length_bytes_ = std::max(length_bytes_, n_bytes); }
  /// May have bytes beyond the length: they appear when it grows.
  void put(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
    if (bytes_.size() < offset_bytes + bytes.size()) bytes_.resize(offset_bytes + bytes.size());
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
  }
  /// Sectors that were never written are holes.
  void write_to(const fs::path& path) const {
    std::ofstream out(path, std::ios::binary);
    const auto n_bytes = std::min<std::uint64_t>(bytes_.size(), length_bytes_);
    out.write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(n_bytes));
    if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
    fs::resize_file(path, length_bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t length_bytes_;
};

/// Decides for each uncertain event whether it happened. The probability differs from cut to cut: never, seldom, half
/// of the time, mostly, always, and each for bytes, lengths and names.
class Luck {
 public:
  Luck(std::uint64_t seed, std::size_t moment) {
    std::seed_seq mixed{seed, seed >> 32, std::uint64_t{moment}};
    random_.seed(mixed);
    for (auto* odds : {&sector_odds_, &length_odds_, &name_odds_}) *odds = kOdds[random_() % std::size(kOdds)];
  }
  bool sector() { return random_() % 8 < sector_odds_; }
  bool length() { return random_() % 8 < length_odds_; }
  bool name() { return random_() % 8 < name_odds_; }

 private:
  static constexpr std::uint64_t kOdds[] = {0, 1, 4, 7, 8};
  std::mt19937_64 random_;
  std::uint64_t sector_odds_ = 0, length_odds_ = 0, name_odds_ = 0;
};

}  // namespace

/// Replays the log up to one moment.
class TornDrive::Cut {
 public:
  /// Without `luck` every uncertain event happened.
  Cut(const TornDrive& drive, std::size_t moment, Luck* luck) : drive_(drive), moment_(moment), luck_(luck) {
    ended_.resize(drive.events_.size(), kForgotten);
    for (std::size_t i = 0; i < moment; ++i) {
      if (const auto* end = std::get_if<End>(&drive.events_[i])) note_end(*end, i);
      if (const auto* sync = std::get_if<SyncFolder>(&drive.events_[i])) folder_synced_[sync->folder] = i;
    }
  }

  void play(const fs::path& target) {
    for (const auto& folder : drive_.folders_) fs::create_directories(target / folder);
    std::map<FileId, Image> files;  // so that two names of a file show the same bytes
    for (const auto& [name, file] : names()) {
      if (!file) continue;
      if (files.find(*file) == files.end()) files.emplace(*file, image_of(*file));
      files.at(*file).write_to(target / name);
    }
  }

 private:
  void note_end(const End& end, std::size_t i) {
    ended_[end.begun] = i;
    const auto* sync = std::get_if<Sync>(&drive_.events_[end.begun]);
    if (sync) synced_[sync->file] = std::max(synced_[sync->file], end.begun);
  }

  Names names() {
    Names names = drive_.first_names_;
    std::set<std::string> stopped;  // changes of a name are in order: none happens after the first that was lost
    for (std::size_t i = 0; i < moment_; ++i) {
      const auto* changes = std::get_if<Names>(&drive_.events_[i]);
      if (!changes) continue;
      for (const auto& [name, file] : *changes) {
        const auto synced = folder_synced_.find(fs::path(name).parent_path().string());
        const bool certain = luck_ == nullptr || (synced != folder_synced_.end() && i < synced->second);
        if (!certain && (stopped.count(name) > 0 || !luck_->name()))
          stopped.insert(name);
        else
          names[name] = file;
      }
    }
    return names;
  }

  /// Whether event `i`, a write or a length of `file`, is on the drive for certain.
  bool certain(FileId file, std::size_t i, std::size_t came_back) const {
    if (luck_ == nullptr) return true;
    const auto synced = synced_.find(file);
    return synced != synced_.end() && i < synced->second && came_back < synced->second;
  }

  Image image_of(FileId file) {
    Image image(drive_.first_bytes_[file], drive_.first_lengths_bytes_[file]);
    for (std::size_t i = 0; i < moment_; ++i) {
      const auto& event = drive_.events_[i];
      if (const auto* write = std::get_if<Write>(&event); write && write->file == file)
        play(*write, certain(file, i, ended_[i]), image);
      if (const auto* length = std::get_if<Length>(&event); length && length->file == file)
        if (certain(file, i, i) || luck_->length()) image.set_length(length->n_bytes);
    }
    return image;
  }

  void play(const Write& write, bool certain, Image& image) {
    const std::span<const std::byte> bytes(write.bytes);
    for (std::uint64_t at = 0; at < bytes.size();) {
      const auto n_bytes = std::min(kSectorBytes - (write.offset_bytes + at) % kSectorBytes, bytes.size() - at);
      if (certain || luck_->sector()) image.put(write.offset_bytes + at, bytes.subspan(at, n_bytes));
      at += n_bytes;
    }
    const auto end_bytes = write.offset_bytes + bytes.size();
    if (end_bytes > image.length_bytes() && (certain || luck_->length())) image.grow(end_bytes);
  }

  const TornDrive& drive_;
  const std::size_t moment_;
  Luck* const luck_;
  std::vector<std::size_t> ended_;                    // per event: when it returned
  std::map<FileId, std::size_t> synced_;              // when the last sync that ended was requested
  std::map<std::string, std::size_t> folder_synced_;  // when the folder was synced last
};

TornDrive::TornDrive(const std::string& root) : root_(fs::absolute(root).lexically_normal().string()) {
  look_up_names();
  for (const auto& [name, file] : names_) {
    first_bytes_[*file] = read_up_to_zeros(fs::path(root_) / name);
    first_lengths_bytes_[*file] = lengths_bytes_[*file] = fs::file_size(fs::path(root_) / name);
  }
  first_names_ = names_;
  events_.clear();
}

void TornDrive::ignore_syncs(bool ignore) {
  ignore_syncs_of(ignore ? [](const std::string&) { return true; } : SyncFilter());
}

void TornDrive::ignore_syncs_of(SyncFilter ignored) {
  const std::lock_guard lock(mutex_);
  ignored_ = std::move(ignored);
}

std::size_t TornDrive::add(Event event) {
  events_.push_back(std::move(event));
  return events_.size() - 1;
}

TornDrive::FileId TornDrive::new_file() {
  first_bytes_.emplace_back();
  first_lengths_bytes_.push_back(0);
  lengths_bytes_.push_back(0);
  return first_bytes_.size() - 1;
}

TornDrive::FileId TornDrive::file_of(ino_t inode) {
  if (files_.find(inode) == files_.end()) look_up_names();
  if (files_.find(inode) == files_.end()) files_[inode] = new_file();  // it has no name
  return files_[inode];
}

/// A new inode is an empty file; an inode without a name is forgotten, so that its number can be used again.
void TornDrive::look_up_names() {
  folders_.insert("");
  std::map<ino_t, FileId> files;
  Names changes;
  for (const auto& [name, file] : names_) {
    if (file) changes[name] = std::nullopt;
  }
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    const auto name = relative_to(root_, entry.path());
    if (entry.is_directory()) {
      folders_.insert(name);
      continue;
    }
    const auto inode = inode_of(entry.path());
    if (files_.find(inode) == files_.end()) files_[inode] = new_file();
    const auto file = files_[inode];
    files[inode] = file;
    changes[name] = file;
    const auto before = names_.find(name);
    if (before != names_.end() && before->second == file) changes.erase(name);
  }
  files_ = std::move(files);
  for (const auto& [name, file] : changes) names_[name] = file;
  if (!changes.empty()) add(std::move(changes));
}

/// One of the file's present names; "" where it has none.
std::string TornDrive::name_of(FileId file) const {
  for (const auto& [name, named] : names_)
    if (named == file) return name;
  return "";
}

std::size_t TornDrive::begin_write(ino_t inode, std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const auto file = file_of(inode);
  lengths_bytes_[file] = std::max(lengths_bytes_[file], offset_bytes + bytes.size());
  return add(Write{file, offset_bytes, Bytes(bytes.begin(), bytes.end())});
}

std::size_t TornDrive::begin_sync(ino_t inode) {
  const std::lock_guard lock(mutex_);
  const auto file = file_of(inode);
  return ignored_ && ignored_(name_of(file)) ? kForgotten : add(Sync{file});
}

void TornDrive::end(std::size_t begun) {
  const std::lock_guard lock(mutex_);
  if (begun != kForgotten) add(End{begun});
}

void TornDrive::note_write(ino_t inode, std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  end(begin_write(inode, offset_bytes, bytes));
}

void TornDrive::note_sync(ino_t inode) { end(begin_sync(inode)); }

void TornDrive::note_length(ino_t inode, std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  const auto file = file_of(inode);
  lengths_bytes_[file] = n_bytes;
  add(Length{file, n_bytes});
}

void TornDrive::note_grown(ino_t inode, std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  const auto file = file_of(inode);
  if (n_bytes <= lengths_bytes_[file]) return;
  lengths_bytes_[file] = n_bytes;
  add(Length{file, n_bytes});
}

void TornDrive::note_names() {
  const std::lock_guard lock(mutex_);
  look_up_names();
}

void TornDrive::note_sync_folder(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  look_up_names();
  const auto name = relative_to(root_, fs::absolute(folder));
  if (!ignored_ || !ignored_(name + "/")) add(SyncFolder{name});
}

std::size_t TornDrive::n_moments() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

std::unique_ptr<ScratchFolder> TornDrive::crash(std::uint64_t seed, std::size_t moment,
                                                const std::string& parent) const {
  const std::lock_guard lock(mutex_);
  auto target = std::make_unique<ScratchFolder>(parent);
  Luck luck(seed, moment);
  Cut(*this, moment, &luck).play(target->path());
  return target;
}

std::unique_ptr<ScratchFolder> TornDrive::whole() const {
  const std::lock_guard lock(mutex_);
  auto target = std::make_unique<ScratchFolder>();
  Cut(*this, events_.size(), nullptr).play(target->path());
  return target;
}

}  // namespace castor::test
