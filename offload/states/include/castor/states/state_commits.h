// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/event.h>
#include <castor/mover/stateful_tensor_mgr.h>
#include <castor/states/committed_states.h>
#include <castor/states/state_io.h>
#include <castor/states/tensor_store_spill.h>

namespace castor {

/// The bytes of a commit.
struct CommitFigures {
  std::uint64_t written_bytes = 0;     ///< chunks that were written for the commit
  std::uint64_t referenced_bytes = 0;  ///< chunks that were below the host already, and stay where they are
};

/// Makes the store below the host a training's checkpoint: chunks that are in it are named, chunks above are written,
/// and all of them become durable in one instant. The store has Durability::commit, so that nothing overwrites the
/// contents of the last commit.
///
/// Room: up to two slots of every chunk; while a training continues in other chunks than were committed, both sets.
/// Threads: the training thread.
class StateCommits {
 public:
  /// Borrowed; must outlive this. Requires: nothing was spilled yet.
  struct Parts {
    TensorStore& store;
    TensorStoreSpill& spill;  ///< of `store`
    ChunkManager& chunks;
    const StateLayout& states;
    StateIo& io;
    UpdateBarrier& barrier;
    StatefulTensorMgr& mover;  ///< waits for the store within its limits
  };
  /// Finds the last commit, and has new chunks spill beside it. Errors: io; usage, where the store holds a commit that
  /// has no description.
  static Result<std::unique_ptr<StateCommits>> make(const Parts& parts);

  /// Waits until the drive does not read the description of a commit any more that was given up.
  ~StateCommits();

  /// The step and the note of the last commit; none before the first.
  std::optional<std::uint64_t> step() const { return parts_.store.committed_step(); }
  const std::string& note() const;

  /// Makes weights, states and counters durable as of the last step, as `step`, together with `note`, and waits for
  /// that. Errors: usage between an early update and its step, or where the store holds a run that this one has not
  /// restored; those of StateIo::write_back, TensorStore::commit and the mover's waits. After an error the last
  /// commit stands, and commit may be tried again; one whose wait was given up may still become durable, whole, when
  /// the drive answers.
  Result<CommitFigures> commit(std::uint64_t step, std::string_view note);

  /// True where a commit was found and restore will adopt its chunks in place, without a copy: then the optimizer's own
  /// need no contents before.
  bool adopts() const;

  /// Continues from the commit that was found: chunks that are the same are adopted in place, without a copy; otherwise
  /// their values are read and written anew. The commit stands until the next one. Errors: usage, where none was found
  /// or it was restored already; those of reading and writing.
  Result<void> restore();

 private:
  /// A commit from its description on.
  struct UnderWay {
    std::vector<std::byte> description;  ///< read by the drive until `described`
    std::string note;
    Event described;
    std::optional<Event> committed;  ///< once the store was asked to
  };

  explicit StateCommits(const Parts& parts) : parts_(parts) {}
  Result<void> await(const Event& event) const;
  Result<void> settle();
  Result<void> make_durable(std::uint64_t step, const StateMap& map, std::string_view note);
  Result<void> adopt();
  Result<void> copy();
  void remove_others(const StateMap& kept);
  StateMap map() const;

  const Parts parts_;
  std::optional<CommittedStates> found_;  ///< not restored yet
  std::string note_;
  std::optional<UnderWay> under_way_;  ///< the last one, if it was not seen to end
};

}  // namespace castor
