// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <castor/plugins/booster.h>
#include <castor/plugins/grad_scaler.h>
#include <castor/plugins/strategy.h>

namespace castor {
class TensorStore;
}

namespace castor::train {

/// What of a run a checkpoint holds beside the parameters.
struct RunState {
  std::int64_t n_steps = 0;  ///< that have ended; the batches of a step follow from its number and the seed
  std::optional<DynamicGradScaler::State> scaler;
};

/// The run in a folder: masters, moments and counters of every parameter and the RunState, as of one step. A store with
/// Durability::commit: whenever process or machine stop, the last checkpoint that was completed is there, whole and checked
/// by its checksums. What it holds says nothing of plugins and budgets: any may go on from it.
///
/// Room: two checkpoints of 12 bytes a parameter. Memory: 24 MiB while it saves or loads. Threads: one.
class Checkpoint {
 public:
  /// The one in `folder`, which is made where it is not there yet. Errors: io, as TensorStore::open.
  static Result<std::unique_ptr<Checkpoint>> open(const std::filesystem::path& folder);
  /// The one in `store`, which commits.
  Checkpoint(std::filesystem::path folder, std::unique_ptr<TensorStore> store);
  ~Checkpoint();

  /// The step after which it was taken; nothing where the folder holds none.
  std::optional<std::uint64_t> step() const;

  /// Errors: io; those of the strategy. Then the last one stands.
  Result<void> save(const std::string& model_name, ModelHost& model, Strategy& strategy, const RunState& run);

  /// Has `strategy` go on from it. Errors: usage, where the folder holds none or that of another model; io, where bytes are
  /// damaged; those of the strategy.
  Result<RunState> load(const std::string& model_name, ModelHost& model, Strategy& strategy);

 private:
  Result<std::string> header();
  Error refused(const std::string& why) const;

  const std::filesystem::path folder_;
  const std::unique_ptr<TensorStore> store_;
};

}  // namespace castor::train
