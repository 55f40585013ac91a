// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/intrusive/list.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <castor/io/stripe_layout.h>
#include <castor/memory/buffer.h>
#include <castor/memory/event.h>
#include <castor/memory/result.h>

namespace castor {

/// What lies under a key.
struct StoredValue {
  std::uint64_t n_bytes = 0;
  Placement place;
  std::vector<std::uint64_t> checksums;  ///< one per block
};

struct StoreEntry;

/// One put or get under way. Objects are used again, so that none allocates once its vectors are large enough.
///
/// Members: `n_pending`, `moved_bytes`, `error` and `next_block` under the mutex of the store; the rest is set before
/// the first block moves.
struct StoreOp {
  enum class Kind : std::uint8_t { put, get };
  using Hook = boost::intrusive::list_member_hook<>;

  Kind kind = Kind::put;
  std::uint64_t key = 0;
  BufferView bytes;
  StoreEntry* entry = nullptr;
  std::shared_ptr<HostEventState> done;  ///< owners: this and the caller's event
  bool started = false;
  bool held = false;                     ///< a put that a commit under way holds back
  std::vector<ValueBlock> blocks;        ///< what is to move
  std::vector<std::uint64_t> checksums;  ///< of these, by who puts them; empty: they are still to be made
  std::vector<std::size_t> next_block;   ///< per volume: where to look for its next block
  std::size_t n_pending = 0;             ///< blocks that have not landed
  std::uint64_t moved_bytes = 0;
  std::optional<Error> error;

  Hook in_entry;  ///< in the order of its key
  Hook in_turn;   ///< in a list of operations that are about to start
};

using OpsOfKey =
    boost::intrusive::list<StoreOp, boost::intrusive::member_hook<StoreOp, StoreOp::Hook, &StoreOp::in_entry>>;
using OpsToStart =
    boost::intrusive::list<StoreOp, boost::intrusive::member_hook<StoreOp, StoreOp::Hook, &StoreOp::in_turn>>;

/// One key. The values belong to the running put alone, or are read by the running gets: the order of `ops` sees to it.
/// What a commit changes, it changes while no put runs.
///
/// The two slots: while `value` is durable, a put moves it to `durable` and writes elsewhere, to `spare` where that
/// suits; the commit that makes the new value durable makes the old one the spare.
struct StoreEntry {
  std::optional<StoredValue> value;
  bool value_is_durable = false;       ///< the last commit holds `value` itself
  std::optional<StoredValue> durable;  ///< what the last commit holds, where that is not `value`
  std::optional<StoredValue> spare;    ///< room that no commit holds any more
  std::optional<Error> lost;           ///< why the last put left no value
  OpsOfKey ops;                        ///< waiting and running, in the order of the calls

  bool empty() const { return ops.empty() && !value && !durable && !spare && !lost; }
};

}  // namespace castor
