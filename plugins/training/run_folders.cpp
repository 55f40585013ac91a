// SPDX-License-Identifier: Apache-2.0
#include <castor/training/run_folders.h>

#include <algorithm>
#include <utility>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>
#include <castor/memory/system_limit.h>
#include <castor/memory/text.h>
#include <castor/training/committed_run.h>

#include "run_header.h"

namespace castor {
namespace {

using Folders = std::vector<std::filesystem::path>;

/// More than a save has open at once, and than the steps before it open.
constexpr int kFilesOfSave = 8;

bool share_a_folder(const Folders& some, const Folders& others) {
  return std::any_of(some.begin(), some.end(), [&others](const auto& folder) {
    return std::any_of(others.begin(), others.end(), [&folder](const auto& other) {
      return std::filesystem::weakly_canonical(folder) == std::filesystem::weakly_canonical(other);
    });
  });
}

Result<void> check_exist(const Folders& folders) {
  for (const auto& folder : folders)
    if (!std::filesystem::is_directory(folder))
      return Error{ErrorKind::usage, about_checkpoint(folder.string(), "there is no such folder"), "resume_from"};
  return {};
}

/// Data files without their manifest may be a copy that is not complete yet.
Result<void> check_holds_run(const Folders& folders) {
  return Checkpoint::is_in(folders) ? Result<void>() : no_checkpoint(folders_text(folders));
}

}  // namespace

std::string folders_text(const Folders& folders) {
  std::vector<std::string> names;
  for (const auto& folder : folders) names.push_back(folder.string());
  return join_list(names);
}

Result<void> check_unused(const Folders& folders) {
  if (!Checkpoint::is_in(folders)) return {};
  CASTOR_ASSIGN(const auto checkpoint, Checkpoint::open_to_read(folders));
  if (!checkpoint->step()) return {};
  return Error{ErrorKind::usage,
               folders_text(folders) + " holds a run of " + std::to_string(*checkpoint->step()) +
                   " steps already; continue it with `resume_from`, or name another folder",
               "resume_from"};
}

std::string RunFolders::source_text() const { return "`resume_from` " + folders_text(source_); }

bool RunFolders::goes_on() const { return share_a_folder(source_, target()); }

Result<RunFolders> RunFolders::open(const Settings& settings) {
  RunFolders folders;
  CASTOR_TRY(check_exist(settings.resume_from));
  folders.source_ = settings.resume_from;
  if (settings.commits) folders.committed_in_ = settings.save_in;
  if (settings.commits && folders.goes_on()) CASTOR_TRY(check_holds_run(settings.save_in));
  if (!settings.commits && !settings.save_in.empty()) CASTOR_TRY(folders.save_in(settings.save_in));
  CASTOR_TRY(folders.open_source());
  return folders;
}

Result<void> RunFolders::resume_from(Folders folders) {
  if (folders.empty())
    return Error{ErrorKind::usage, "resume() takes the folders of a checkpoint, and none is named", "resume_from"};
  CASTOR_TRY(check_exist(folders));
  source_ = std::move(folders);
  return open_source();
}

Result<void> RunFolders::open_source() {
  resumed_.reset();
  if (source_.empty() || goes_on()) return {};
  CASTOR_ASSIGN(resumed_, Checkpoint::open_to_read(source_));
  return {};
}

bool RunFolders::commits_in(const std::filesystem::path& folder) const {
  return share_a_folder(committed_in_, {folder});
}

Result<void> RunFolders::save_in(Folders folders) {
  if (saved_ && folders == target_) return {};
  saved_.reset();  // a store can be opened once
  if (share_a_folder(committed_in_, folders)) return {};
  // Opening to write removes the leftovers of dead runs, so it comes after what can be refused.
  if (!share_a_folder(own_, folders))
    CASTOR_TRY(share_a_folder(source_, folders) ? check_holds_run(folders) : check_unused(folders));
  CASTOR_ASSIGN(saved_, Checkpoint::open(folders));
  target_ = std::move(folders);
  return {};
}

void RunFolders::close() {
  if (!saved_) return;
  saved_.reset();
  own_.insert(own_.end(), target_.begin(), target_.end());
}

std::vector<std::string> RunFolders::warnings(const ModelParams& params, castor_optimizer optimizer) const {
  if (!saved_) return {};
  std::vector<std::string> sentences = saved_->warnings();
  const std::uint64_t needed_bytes = Checkpoint::bytes_of(params, optimizer);
  if (const auto space = space_of(target_); space && space->available_bytes < needed_bytes)
    sentences.push_back("a save writes " + format_bytes(needed_bytes) + ", and " + folders_text(target_) + " has " +
                        format_bytes(space->available_bytes) +
                        " free; make room before the first save, or name another folder");
  return sentences;
}

Result<void> RunFolders::check(Strategy& strategy) {
  if (saves()) CASTOR_TRY(check_spare_files(kFilesOfSave));
  auto nothing = blank<castor_param_state>();
  if (saved_) CASTOR_TRY(strategy.values().read_state(nothing));
  if (commits()) CASTOR_TRY(strategy.committed());
  return {};
}

Result<RunState> RunFolders::load(const Trained& trained, ModelHost& model, Strategy& strategy) {
  if (restores()) return restore_run(folders_text(source_), trained, model, strategy);
  if (goes_on()) return saved_->load(trained, model, strategy);
  const auto resumed = std::move(resumed_);  // closed after this, so that the run can be saved there
  return resumed->load(trained, model, strategy);
}

Result<SavedBytes> RunFolders::save(const Trained& trained, ModelHost& model, Strategy& strategy, const RunState& run) {
  if (!saves()) return Error{ErrorKind::usage, "the run has no folder to be saved in; name one", "save_in"};
  return commits() ? commit_run(trained, model, strategy, run) : saved_->save(trained, model, strategy, run);
}

}  // namespace castor
