// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "support/scratch_folder.h"

namespace castor::test {

/// The possible contents of a drive after a power cut: a log of all calls of a program on the files below one folder,
/// and the states that a cut at any moment of it may leave.
///
/// The rules are those of POSIX, and harsher than most file systems:
/// - The files below the folder when the log began are on the drive, and so are the folders themselves, always.
/// - A sync of a file makes the writes durable that had returned before the sync was requested; no other call does. Of
///   any other write each sector of 512 bytes may be on the drive or not, and so may the length that it gave the file.
///   A sector that was never written reads as zeros.
/// - A new, changed or removed name is durable after a sync of its folder. Until then each name, for itself, may be in
///   its old state or in that of any change since; a rename is a change of two names.
///
/// The log knows files by their inode, as an open file has no name. It looks names up in the folder at each note, so
/// that a program that creates a file need not report it.
///
/// Threads: any.
class TornDrive {
 public:
  /// Requires: below `root` are only folders and regular files.
  explicit TornDrive(const std::string& root);

  const std::string& root() const { return root_; }
  /// From now on the log ignores every sync, as if the program did not call it: nothing becomes durable.
  void ignore_syncs(bool ignore);
  /// The same for syncs for which `ignored` returns true: it gets the file's name relative to the root, `sub/a`, or
  /// that of the folder and a slash, `sub/`.
  using SyncFilter = std::function<bool(const std::string&)>;
  void ignore_syncs_of(SyncFilter ignored);

  /// Begins a write, which may reach the drive from now on, part by part; it returns at end().
  std::size_t begin_write(ino_t inode, std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  /// Begins a sync, which is requested now and counts from end() on.
  std::size_t begin_sync(ino_t inode);
  /// Ends the call for which one of the two above returned `begun`; a call that failed has no end.
  void end(std::size_t begun);
  /// A write that begins and ends now.
  void note_write(ino_t inode, std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  void note_sync(ino_t inode);
  /// The file was cut to this length, or got zeros at its end.
  void note_length(ino_t inode, std::uint64_t n_bytes);
  /// The same where the file is longer than the log says; else nothing happens.
  void note_grown(ino_t inode, std::uint64_t n_bytes);
  /// Logs the names, which may have changed just now.
  void note_names();
  /// `folder` is the root or begins with it.
  void note_sync_folder(const std::string& folder);

  /// A cut can be at any moment from 0, before the first event, to n_moments(), after the last.
  std::size_t n_moments() const;
  /// A state that a cut at `moment` may leave, in a new folder laid out like the root. The same arguments give the same
  /// state. `parent` is where the folder is made.
  std::unique_ptr<ScratchFolder> crash(std::uint64_t seed, std::size_t moment,
                                       const std::string& parent = ScratchFolder::default_parent()) const;
  /// The state without any loss: the same as below the root, if the log misses no call.
  std::unique_ptr<ScratchFolder> whole() const;

 private:
  using FileId = std::size_t;
  using Bytes = std::vector<std::byte>;
  using Names = std::map<std::string, std::optional<FileId>>;  // relative to the root; nothing = no such file
  struct Write {
    FileId file;
    std::uint64_t offset_bytes;
    Bytes bytes;
  };
  struct Length {
    FileId file;
    std::uint64_t n_bytes;
  };
  struct Sync {
    FileId file;
  };
  struct End {
    std::size_t begun;
  };
  struct SyncFolder {
    std::string folder;
  };
  using Event = std::variant<Write, Length, Sync, End, Names, SyncFolder>;
  class Cut;

  std::size_t add(Event event);
  FileId new_file();
  FileId file_of(ino_t inode);
  void look_up_names();
  std::string name_of(FileId file) const;

  const std::string root_;
  mutable std::mutex mutex_;        // guards all below
  SyncFilter ignored_;              // nothing = every sync counts
  std::set<std::string> folders_;   // relative to the root, which is ""
  std::vector<Bytes> first_bytes_;  // of each file, when the log began, without zeros at its end
  std::vector<std::uint64_t> first_lengths_bytes_;
  std::vector<std::uint64_t> lengths_bytes_;  // of each file, after the last event
  Names first_names_;
  Names names_;                    // after the last event
  std::map<ino_t, FileId> files_;  // that still exist
  std::vector<Event> events_;
};

}  // namespace castor::test
