// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <castor/chunk/chunk_manager.h>
#include <castor/states/committed_states.h>
#include <castor/states/state_io.h>
#include <castor/states/tensor_store_spill.h>

namespace castor {

/// What a commit took.
struct CommitFigures {
  std::uint64_t written_bytes = 0;     ///< of chunks, because of it
  std::uint64_t referenced_bytes = 0;  ///< of chunks that lay below the host already, where they are
};

/// Makes the store below the host a training's checkpoint: what lies there is named, what lies above is written, and all of
/// it is durable in one instant. The store has Durability::commit, so that nothing overwrites what the last commit holds.
///
/// Room: up to two slots of every chunk, and while a training goes on in other chunks than were committed, those and its
/// own. Threads: the one that trains.
class StateCommits {
 public:
  /// Borrowed; must outlive this. Nothing was spilled yet.
  struct Parts {
    TensorStore& store;
    TensorStoreSpill& spill;  ///< of `store`
    ChunkManager& chunks;
    const StateLayout& states;
    StateIo& io;
    PendingUpdates& pending;
  };
  /// Looks for the last commit, and has new chunks spill beside it. Errors: io; usage, where the store holds a commit of
  /// something else.
  static Result<std::unique_ptr<StateCommits>> make(const Parts& parts);

  /// The step of the last commit, and what commit was given with it; nothing before the first.
  std::optional<std::uint64_t> step() const { return parts_.store.committed_step(); }
  const std::string& note() const { return note_; }

  /// Makes weights, states and counters durable as of now, between two steps, as `step`, together with `note`, and waits
  /// for that. Errors: usage between an early update and its step, or where the store holds a run that this one does not
  /// go on from; those of OffloadOptimizer::write_back and TensorStore::commit. Then the last commit stands, and it may be
  /// tried again.
  Result<CommitFigures> commit(std::uint64_t step, std::string_view note);

  /// True where a commit was found and restore will take its chunks over where they lie: then the optimizer's own need no
  /// contents before.
  bool adopts() const;

  /// Goes on from the commit that was found: where the chunks are the same, they are taken over where they lie, without a
  /// copy; else their values are read and written anew. It stands until the next commit. Errors: usage, where none was
  /// found or it was taken over already; those of reading and writing.
  Result<void> restore();

 private:
  explicit StateCommits(const Parts& parts) : parts_(parts) {}
  Result<void> adopt();
  Result<void> copy();
  void remove_others(const StateMap& kept);
  StateMap map() const;

  const Parts parts_;
  std::optional<CommittedStates> found_;  ///< not gone on from yet
  std::string note_;
};

}  // namespace castor
