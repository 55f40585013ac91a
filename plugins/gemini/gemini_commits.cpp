// SPDX-License-Identifier: Apache-2.0
// The folders on NVMe as the run's checkpoint (durability=commit).
#include "gemini_strategy.h"

namespace castor {

Result<void> GeminiStrategy::open_commits() {
  if (options_.durability != Durability::commit) return {};
  CASTOR_ASSIGN(commits_, StateCommits::make({*memory_->store(), *memory_->spill(), *chunks_, optimizer_->states(), optimizer_->io(), optimizer_->pending_updates()}));
  return {};
}

Result<void> GeminiStrategy::can_commit() const {
  if (commits_) return {};
  return Error{ErrorKind::usage, "gemini: what lies on NVMe is scratch here; set durability=commit"};
}

Result<castor_commit_result> GeminiStrategy::commit(std::uint64_t step, std::string_view note) {
  CASTOR_TRY(can_commit());
  CASTOR_ASSIGN(const CommitFigures figures, commits_->commit(step, note));
  return castor_commit_result{sizeof(castor_commit_result), figures.written_bytes, figures.referenced_bytes};
}

Result<std::optional<CommittedRun>> GeminiStrategy::committed() {
  CASTOR_TRY(can_commit());
  const auto step = commits_->step();
  if (!step) return std::optional<CommittedRun>();
  return std::optional(CommittedRun{*step, commits_->note()});
}

/// First values are written over where they lie in other chunks than the commit's; else they never come into being.
Result<void> GeminiStrategy::restore() {
  CASTOR_TRY(can_commit());
  if (!commits_->adopts()) CASTOR_TRY(fill());
  filled_ = true;
  CASTOR_TRY(commits_->restore());
  sample();
  return {};
}

}  // namespace castor
