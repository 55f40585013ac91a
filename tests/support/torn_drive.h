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

/// What a drive may hold after a power cut: a log of all that a program asked of the files below one folder, and the
/// states that a cut at any moment of it may leave.
///
/// The rules are those of POSIX, and harsher than most file systems:
/// - What lay below the folder when the log began is on the drive, and so are the folders themselves, always.
/// - A sync of a file puts there what had been written, and had come back, before the sync was asked for; nothing else
///   does. Of any other write each sector of 512 bytes may be there or not, and so may be the length that it gave the
///   file. A sector that was never written reads as zeros.
/// - A name that was given, changed or taken away is so after a sync of its folder. Until then each name, for itself,
///   may be as it was or as any change since has left it; a rename is a change of two names.
///
/// Files go by their inode, as an open file has no name. Names are looked up in the folder at each note, so that
/// whoever creates a file need not say so.
///
/// Threads: any.
class TornDrive {
 public:
  /// Below `root` lie folders and regular files only.
  explicit TornDrive(const std::string& root);

  const std::string& root() const { return root_; }
  /// From now on the log forgets every sync, as if the program did not call it: nothing reaches the drive for certain.
  void ignore_syncs(bool ignore);
  /// The same of the syncs that `ignored` says: it is given the file's name relative to the root, `sub/a`, or that of
  /// the folder and a slash, `sub/`.
  using SyncFilter = std::function<bool(const std::string&)>;
  void ignore_syncs_of(SyncFilter ignored);

  /// A write that may reach the drive from now on, bit by bit; it has come back at end().
  std::size_t begin_write(ino_t inode, std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  /// A sync that is asked for now and holds from end() on.
  std::size_t begin_sync(ino_t inode);
  /// `begun` is what one of the two above returned; what failed has no end.
  void end(std::size_t begun);
  /// The same with nothing in between.
  void note_write(ino_t inode, std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  void note_sync(ino_t inode);
  /// The file was cut to this length, or got zeros at its end.
  void note_length(ino_t inode, std::uint64_t n_bytes);
  /// The same where the file is longer than the log says; else nothing happens.
  void note_grown(ino_t inode, std::uint64_t n_bytes);
  /// Names may have changed just now.
  void note_names();
  /// `folder` is the root or begins with it.
  void note_sync_folder(const std::string& folder);

  /// A cut can come at any moment from 0, before the first event, to n_moments(), after the last.
  std::size_t n_moments() const;
  /// A state that a cut at `moment` may leave, in a new folder laid out like the root. The same arguments give the same
  /// state. `parent` is where the folder is made.
  std::unique_ptr<ScratchFolder> crash(std::uint64_t seed, std::size_t moment,
                                       const std::string& parent = ScratchFolder::default_parent()) const;
  /// What lies there when nothing was lost: the same as below the root, where the log misses nothing.
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
