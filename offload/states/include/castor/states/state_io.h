// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <castor/memory/host_team.h>
#include <castor/mover/stateful_tensor_mgr.h>
#include <castor/states/state_layout.h>
#include <castor/states/state_values.h>

namespace castor {

/// Brings chunks up to the last step that has ended, before their values are read or written: the optimizer implements
/// it.
class UpdateBarrier {
 public:
  virtual ~UpdateBarrier() = default;
  /// Makes the updates of `chunk` that are waiting, and takes back a speculative one. Errors: those of the update;
  /// usage, where the chunk was updated early in a step that has not ended; failed, where an earlier update
  /// failed.
  [[nodiscard]] virtual Result<void> complete(PayloadId chunk) = 0;
  /// The same for all chunks; usage where any was updated early.
  [[nodiscard]] virtual Result<void> complete_all() = 0;
  /// Called when values were written from outside: the next iteration will not repeat the ones before.
  virtual void values_replaced() = 0;
};

/// Reads and writes a model's masters, moments and weights where they are: first values, checkpoints, masters for a
/// caller.
///
/// Reads between two moments, all others between two steps. Takes no more memory than the budgets allow. Threads: one at
/// a time; the team does the work in between.
class StateIo {
 public:
  /// Borrowed; must outlive this.
  struct Parts {
    StateLayout& states;
    ChunkManager& chunks;
    StatefulTensorMgr& mover;
    HostTeam& team;
    UpdateBarrier& barrier;
    std::function<bool()> interrupted;  ///< called before every tile of first values
  };

  explicit StateIo(Parts parts) : parts_(std::move(parts)) {}

  /// Writes values of `tensor` from number `first` on; called by several threads at once.
  template <typename T>
  using FillWith = std::function<Result<void>(TensorId tensor, std::uint64_t first, std::span<T> values)>;
  struct Fill {
    FillWith<float> fp32;
    FillWith<std::byte> bytes = {};  ///< may be empty where no tensor is of bytes
  };
  /// Called with the share of first values that are written, or will be within a second or two. Runs on the calling
  /// thread.
  using Progress = std::function<void(double share)>;

  /// Writes the first values of every tensor, tile by tile; moments are 0. Errors: those of the mover and of `fill`;
  /// interrupted.
  [[nodiscard]] Result<void> initialise(
      const Fill& fill, const Progress& progress = [](double) {});

  /// Fills the arrays of `values` that are not null, and n_updates; of a frozen tensor the master is its weight in
  /// fp32, of one of bytes those are all. Errors: usage, where the tensor has no such values; those of
  /// UpdateBarrier::complete and of the mover.
  [[nodiscard]] Result<void> read(TensorId tensor, StateValues& values);

  /// Writes values that were read here or elsewhere, and the weights that follow from them. Errors: as read.
  [[nodiscard]] Result<void> write(TensorId tensor, const StateValues& values);

  /// Makes the weights of `tensor` in its payload, which the caller has changed on the device, its masters; moments and
  /// the counter stay. Errors: as read; then part of the masters are new, and the call may be repeated.
  [[nodiscard]] Result<void> take_weights(TensorId tensor);

  /// Copies all weights and states to the tier below the host, unless they are there. Errors: those of complete_all and
  /// of StatefulTensorMgr::write_back.
  [[nodiscard]] Result<void> write_back();

  /// Makes the contents that the tier below the host has under the chunks' numbers the current weights and states, and
  /// `n_updates` the counters of the tensors. Errors: those of complete_all.
  [[nodiscard]] Result<void> take_spilled(const IndexedVector<TensorId, std::uint64_t>& n_updates);

 private:
  struct Filling;

  Result<void> start_filling(const Progress& progress, Filling& filling);
  Result<void> start_filling(PayloadId chunk, TileId tile, Filling& filling);
  Result<void> wait_for_first(Filling& filling, std::size_t n_left);
  Result<void> send_states_home(PayloadId chunk, TileId tile);
  Result<void> send_payload_up(PayloadId chunk);
  Result<void> check(TensorId tensor, const StateValues& values) const;
  std::vector<TilePart> parts_in(PayloadId chunk, TileId tile, TensorId tensor, const StateValues& values) const;
  Result<void> read_part(PayloadId chunk, TileId tile, const TilePart& part, const StateValues& values);
  Result<void> write_part(PayloadId chunk, TileId tile, const TilePart& part, std::byte* state,
                          const StateValues& values);
  Result<void> take_part(PayloadId chunk, TileId tile, const TilePart& part, std::byte* state);
  Result<void> read_frozen(TensorId tensor, const StateValues& values);
  Result<void> write_frozen(TensorId tensor, const StateValues& values);
  Result<BufferView> edit_weights(PayloadId chunk);
  std::byte* on_host(ChunkId id) const { return parts_.chunks.chunk(id).at(Tier::host).buffer.data(); }

  const Parts parts_;
};

}  // namespace castor
