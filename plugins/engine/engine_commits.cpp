// SPDX-License-Identifier: Apache-2.0
#include "engine_commits.h"

#include <string_view>
#include <utility>

namespace castor {

Result<void> EngineCommits::open(Durability durability) {
  if (durability != Durability::commit) return {};
  CASTOR_ASSIGN(commits_, StateCommits::make({.store = *parts_.memory.store(),
                                              .spill = *parts_.memory.store_spill(),
                                              .chunks = parts_.chunks,
                                              .states = parts_.optimizer.states(),
                                              .io = parts_.optimizer.io(),
                                              .barrier = parts_.optimizer.update_barrier(),
                                              .mover = parts_.mover}));
  return {};
}

Result<void> EngineCommits::check() const {
  if (commits_) return {};
  return Error{ErrorKind::usage,
               "gemini: with durability=scratch the states on NVMe cannot be committed; set durability=commit",
               "durability"};
}

Result<void> EngineCommits::commit_begin(const castor_commit_args& args) {
  CASTOR_TRY(check());
  begun_.reset();
  const std::string_view note(static_cast<const char*>(args.note), args.n_note_bytes);
  CASTOR_ASSIGN(const CommitFigures figures, commits_->commit(args.step, note));
  begun_ = castor_commit_result{sizeof(castor_commit_result), figures.written_bytes, figures.referenced_bytes};
  return {};
}

Result<castor_commit_result> EngineCommits::commit_wait() {
  CASTOR_TRY(check());
  if (const auto done = std::exchange(begun_, std::nullopt)) return *done;
  return Error{ErrorKind::usage, "no commit was begun; call commit_begin first"};
}

Result<castor_committed_run> EngineCommits::last_commit() {
  CASTOR_TRY(check());
  auto run = blank<castor_committed_run>();
  const auto step = commits_->step();
  if (!step) return run;
  note_ = commits_->note();
  run.exists = 1, run.step = *step;
  run.note = note_.data(), run.n_note_bytes = note_.size();
  return run;
}

/// Chunks with the commit's layout are adopted and need no first values; values of others are written over first
/// values.
Result<void> EngineCommits::restore() {
  CASTOR_TRY(check());
  if (!commits_->adopts()) CASTOR_TRY(parts_.values.initialise());
  parts_.values.set_initialised();
  CASTOR_TRY(commits_->restore());
  return parts_.values.begin_use();
}

}  // namespace castor
