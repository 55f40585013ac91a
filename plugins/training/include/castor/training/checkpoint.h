// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <castor/plugins/booster.h>
#include <castor/plugins/strategy.h>
#include <castor/training/model_params.h>
#include <castor/training/run_state.h>

namespace castor {

class CommittedStates;
class TensorStore;

/// A run in a folder: masters, moments and counters of every parameter and the RunState, as of one step. The store has
/// Durability::commit: whenever process or machine stop, the last completed checkpoint is complete and verified by its
/// checksums. It does not depend on plugins and budgets: a run with any of them can continue from it. A store that a
/// strategy has committed itself (commit_run) can be loaded, too.
///
/// Space: two checkpoints of 12 bytes per parameter, 8 if the optimizer keeps one moment. Memory: 24 MiB to save, 12
/// MiB to load; that of CommittedStates::read for a store that a strategy committed. Threads: one.
class Checkpoint {
 public:
  /// The checkpoint in `folders`, which are created if missing. Errors: io, as TensorStore::open.
  static Result<std::unique_ptr<Checkpoint>> open(const std::vector<std::filesystem::path>& folders);
  /// The checkpoint in `folders`, of which nothing is written: several may read it at the same time, also where they may
  /// not write. Errors: usage where there is none; io.
  static Result<std::unique_ptr<Checkpoint>> open_to_read(const std::vector<std::filesystem::path>& folders);
  /// The checkpoint in `store`, whose durability is commit; messages call its folders `folders`.
  Checkpoint(std::string folders, std::unique_ptr<TensorStore> store);
  ~Checkpoint();

  /// Whether one of `folders` has a manifest, or does not let this user see.
  static bool is_in(const std::vector<std::filesystem::path>& folders);
  /// Bytes of the values that a save writes, beside those of the last one.
  static std::uint64_t bytes_of(const ModelParams& params, castor_optimizer optimizer);

  /// Sentences for the user about its store (TensorStore::warnings).
  std::vector<std::string> warnings() const;
  /// The step after which it was saved; nothing if the folder holds no checkpoint.
  std::optional<std::uint64_t> step() const;

  /// Errors: failed, where a state holds inf or nan; io; those of the strategy. Then the last checkpoint stays valid.
  /// Requires: not opened to read.
  Result<SavedBytes> save(const Trained& trained, ModelHost& model, Strategy& strategy, const RunState& run);

  /// Makes `strategy` continue from it. Errors: usage if the folder holds no checkpoint or one of another model or
  /// optimizer; io if bytes are damaged; those of the strategy.
  Result<RunState> load(const Trained& trained, ModelHost& model, Strategy& strategy);

 private:
  Result<std::string> header();
  Result<RunState> load_committed(const CommittedStates& states, const Trained& trained, const ModelParams& params,
                                  Strategy& strategy);

  const std::string folders_;
  const std::unique_ptr<TensorStore> store_;
};

}  // namespace castor
