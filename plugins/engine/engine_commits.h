// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <castor/chunk/chunk_manager.h>
#include <castor/io/tensor_store.h>
#include <castor/optimizer/offload_optimizer.h>
#include <castor/plugins/strategy.h>
#include <castor/states/state_commits.h>

#include "engine_memory.h"
#include "model_values.h"

namespace castor {

/// The folders on NVMe as the run's checkpoint (durability=commit).
class EngineCommits final : public CommitCalls {
 public:
  /// Borrowed.
  struct Parts {
    EngineMemory& memory;
    ChunkManager& chunks;
    OffloadOptimizer& optimizer;
    ModelValues& values;
    StatefulTensorMgr& mover;
  };
  explicit EngineCommits(const Parts& parts) : parts_(parts) {}

  /// Finds the last commit, where `durability` is that of a store that keeps commits. Errors: those of
  /// StateCommits::make.
  [[nodiscard]] Result<void> open(Durability durability);
  /// True where a commit was found: the caller will probably restore it, so that first values would be wasted.
  bool found() const { return commits_ && commits_->step(); }

  /// Errors of all: usage, where the folders are scratch; those of StateCommits. The commit is durable when
  /// commit_begin returns; commit_wait returns its figures, once.
  Result<void> commit_begin(const castor_commit_args& args) override;
  Result<castor_commit_result> commit_wait() override;
  Result<castor_committed_run> last_commit() override;
  Result<void> restore() override;

 private:
  Result<void> check() const;

  const Parts parts_;
  std::unique_ptr<StateCommits> commits_;  ///< null where the folders are scratch
  std::optional<castor_commit_result> begun_;
  std::string note_;  ///< the memory that last_commit's result points to
};

}  // namespace castor
