// SPDX-License-Identifier: Apache-2.0
#include "engine_commits.h"

namespace castor {

Result<void> EngineCommits::open(Durability durability) {
  if (durability != Durability::commit) return {};
  CASTOR_ASSIGN(commits_, StateCommits::make({.store = *parts_.memory.store(),
                                              .spill = *parts_.memory.spill(),
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
               "gemini: with durability=scratch the states on NVMe cannot be committed; set durability=commit"};
}

Result<castor_commit_result> EngineCommits::commit(std::uint64_t step, std::string_view note) {
  CASTOR_TRY(check());
  CASTOR_ASSIGN(const CommitFigures figures, commits_->commit(step, note));
  return castor_commit_result{sizeof(castor_commit_result), figures.written_bytes, figures.referenced_bytes};
}

Result<std::optional<CommittedRun>> EngineCommits::last() const {
  CASTOR_TRY(check());
  const auto step = commits_->step();
  if (!step) return std::optional<CommittedRun>();
  return std::optional(CommittedRun{*step, commits_->note()});
}

/// Chunks with the commit's layout are adopted and need no first values; values of others are written over first
/// values.
Result<void> EngineCommits::restore() {
  CASTOR_TRY(check());
  if (!commits_->adopts()) CASTOR_TRY(parts_.values.initialise());
  parts_.values.set_initialised();
  return commits_->restore();
}

}  // namespace castor
