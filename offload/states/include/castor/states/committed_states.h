// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <castor/io/tensor_store.h>
#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>
#include <castor/states/state_map.h>
#include <castor/states/state_values.h>

namespace castor {

/// A training as of the last commit of the store that its chunks were kept in (StateCommits), for a program that
/// continues it: with other chunks, on other tiers, or without any.
class CommittedStates {
 public:
  /// The key of the description; the keys of chunks are below it.
  static constexpr std::uint64_t kKey = std::uint64_t{1} << 62;

  /// The training that `store` holds; nothing where it has no commit, or one without a description. `store` must
  /// outlive the result. Errors: io.
  static Result<std::optional<CommittedStates>> find(TensorStore& store);

  /// The description of `map`, with a note of the caller's: the value that a store has under kKey.
  static std::vector<std::byte> description(const StateMap& map, std::string_view note);

  const StateMap& map() const { return map_; }
  const std::string& note() const { return note_; }

  /// Receives some values of the tensor `registered`; the callee may read them during the call.
  using Take = std::function<Result<void>(RegisteredId registered, const StateValues& states)>;
  /// Passes all values of all tensors to `take`, at most 1 Mi at a time and each once, in the order of their places.
  ///
  /// Memory: the weights of a chunk, the states of a tile, and 12 MiB. Errors: those of `take`; io, where bytes are
  /// damaged.
  Result<void> read(const Take& take) const;

 private:
  CommittedStates(TensorStore& store, StateMap map, std::string note)
      : store_(&store), map_(std::move(map)), note_(std::move(note)) {}

  TensorStore* store_;
  StateMap map_;
  std::string note_;
};

}  // namespace castor
