// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/intrusive/list.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/event.h>
#include <castor/memory/result.h>

#include "stripes/stripe_layout.h"

namespace castor {

struct StoreEntry;

/// One put or get under way. Objects are used again, so that none allocates once its vectors are large enough.
///
/// Members: `stage`, `n_pending`, `moved_bytes`, `error` and `next_block` under the mutex of the store; the rest is set
/// before the first block moves.
struct StoreOp {
  enum class Kind : std::uint8_t { put, get };
  /// The stages follow in this order; a get, and a put without a commit under way, begins as waiting.
  enum class Stage : std::uint8_t {
    held,     ///< a put that a commit under way holds back
    waiting,  ///< for the operations of its key before it
    started,
  };
  using Hook = boost::intrusive::list_member_hook<>;

  Kind kind = Kind::put;
  Stage stage = Stage::waiting;
  std::uint64_t key = 0;
  BufferView bytes;
  StoreEntry* entry = nullptr;
  std::shared_ptr<HostEventState> done;  ///< owners: this and the caller's event
  std::vector<ValueBlock> blocks;        ///< the blocks to move
  std::vector<std::uint64_t> checksums;  ///< of these, from the caller of the put; empty: they are still to be made
  std::vector<std::size_t> next_block;   ///< per volume: where to look for its next block
  std::size_t n_pending = 0;             ///< blocks that have not ended
  std::uint64_t moved_bytes = 0;
  std::optional<Error> error;

  Hook in_entry;  ///< in the order of its key
  Hook in_turn;   ///< in a list of operations that are about to start
};

using OpsOfKey =
    boost::intrusive::list<StoreOp, boost::intrusive::member_hook<StoreOp, StoreOp::Hook, &StoreOp::in_entry>>;
using OpsToStart =
    boost::intrusive::list<StoreOp, boost::intrusive::member_hook<StoreOp, StoreOp::Hook, &StoreOp::in_turn>>;

}  // namespace castor
