// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <castor/training/checkpoint.h>

namespace castor {

/// Folders as messages and options list them: `/a,/b`.
std::string folders_text(const std::vector<std::filesystem::path>& folders);

/// Errors: usage if the folders hold a run; io.
Result<void> check_unused(const std::vector<std::filesystem::path>& folders);

/// The folders that a run is saved in, and those that it continues from: a checkpoint of pieces, or the folders in
/// which a strategy commits. A run is saved over another only if it continues that one.
///
/// Threads: one.
class RunFolders {
 public:
  struct Settings {
    std::vector<std::filesystem::path> resume_from;  ///< all folders of one checkpoint; empty = a new run
    std::vector<std::filesystem::path> save_in;      ///< made if missing; empty = not saved
    /// The strategy commits in `save_in`, its own folders. It refuses a run in them that this one does not continue, at
    /// its first commit; check_unused finds it earlier.
    bool commits = false;
  };

  /// Opens the folders, before anything large is made. Errors: usage if a folder to resume from does not exist, or one
  /// to save in holds a run that this one does not continue; io.
  static Result<RunFolders> open(const Settings& settings);
  /// Continues from `folders`, before the first load or save. Errors: as open.
  Result<void> resume_from(std::vector<std::filesystem::path> folders);
  /// Saves a checkpoint of pieces in `folders` from now on; where the strategy commits in one of them, by its commits.
  /// Errors: as open.
  Result<void> save_in(std::vector<std::filesystem::path> folders);
  /// True where the strategy commits in `folder`.
  bool commits_in(const std::filesystem::path& folder) const;
  /// Lets others open the folders of the last save_in, until the next. Commits are possible again.
  void close();

  /// Sentences for the user about the store that checkpoints are saved in, and about too little room for one.
  std::vector<std::string> warnings(const ModelParams& params, castor_optimizer optimizer) const;

  bool saves() const { return !target().empty(); }
  const std::vector<std::filesystem::path>& target() const { return saved_ ? target_ : committed_in_; }
  bool resumes() const { return !source_.empty(); }
  /// The folders to resume from as sentences name them, with their option.
  std::string source_text() const;

  /// Errors: usage if runs of `strategy` cannot be saved in this way; failed if this process may open too few files for
  /// a save.
  Result<void> check(Strategy& strategy);
  /// load() continues the run by a commit of the strategy itself.
  bool restores() const { return goes_on() && commits(); }
  /// Makes `strategy` continue the run of resume_from. Errors: those of Checkpoint::load and restore_run.
  Result<RunState> load(const Trained& trained, ModelHost& model, Strategy& strategy);
  /// Errors: usage if the run has no folder; those of Checkpoint::save and commit_run.
  Result<SavedBytes> save(const Trained& trained, ModelHost& model, Strategy& strategy, const RunState& run);

 private:
  bool goes_on() const;  ///< the run is saved where it continues from
  bool commits() const { return saves() && !saved_; }
  Result<void> open_source();

  std::vector<std::filesystem::path> source_;
  std::vector<std::filesystem::path> target_;        ///< of saved_
  std::vector<std::filesystem::path> own_;           ///< of closed checkpoints of this run
  std::vector<std::filesystem::path> committed_in_;  ///< by the strategy; empty: it does not commit
  std::unique_ptr<Checkpoint> saved_;                ///< null: the strategy commits, or the run has no folder
  std::unique_ptr<Checkpoint> resumed_;  ///< until it is loaded; null if it is the one above, or the strategy's
};

}  // namespace castor
