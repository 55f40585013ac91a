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

#include "train/report.h"
#include "train/run_header.h"

namespace castor {
class CommittedStates;
class TensorStore;
}  // namespace castor

namespace castor::train {

/// The run in a folder: masters, moments and counters of every parameter and the RunState, as of one step. A store with
/// Durability::commit: whenever process or machine stop, the last checkpoint that was completed is there, whole and checked
/// by its checksums. What it holds says nothing of plugins and budgets: any may go on from it. A store that a strategy has
/// committed itself (commit_run) can be loaded, too.
///
/// Room: two checkpoints of 12 bytes a parameter, 8 where the optimizer keeps one moment. Memory: 24 MiB while it saves or
/// loads, of what a strategy has committed as CommittedStates::read. Threads: one.
class Checkpoint {
 public:
  /// The one in `folders`, which are made where they are not there yet. Errors: io, as TensorStore::open.
  static Result<std::unique_ptr<Checkpoint>> open(const std::vector<std::filesystem::path>& folders);
  /// The one in `store`, which commits and lies in `folders` as messages call them.
  Checkpoint(std::string folders, std::unique_ptr<TensorStore> store);
  ~Checkpoint();

  /// The step after which it was taken; nothing where the folder holds none.
  std::optional<std::uint64_t> step() const;

  /// Errors: io; those of the strategy. Then the last one stands.
  Result<SavedBytes> save(const Trained& trained, ModelHost& model, Strategy& strategy, const RunState& run);

  /// Has `strategy` go on from it. Errors: usage, where the folder holds none or that of another model or optimizer; io, where bytes are
  /// damaged; those of the strategy.
  Result<RunState> load(const Trained& trained, ModelHost& model, Strategy& strategy);

 private:
  Result<std::string> header();
  Result<nlohmann::json> read_header(const std::string& text, const Trained& trained,
                                     const std::vector<castor_param_info>& params) const;
  Result<RunState> load_committed(const CommittedStates& states, const Trained& trained,
                                  const std::vector<castor_param_info>& params, Strategy& strategy);
  Error refused(const std::string& why) const;

  const std::string folders_;
  const std::unique_ptr<TensorStore> store_;
};

}  // namespace castor::train
