// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <castor/memory/result.h>

#include "store_op.h"
#include "stripes/stripe_layout.h"

namespace castor {

/// The value of a key: its room and the checksums of its blocks.
struct StoredValue {
  std::uint64_t n_bytes = 0;
  Placement place;
  std::vector<std::uint64_t> checksums;  ///< one per block
};

/// One key. By the order of `ops`, either one running put changes the values or running gets read them. A commit
/// changes them only while no put runs.
///
/// The two slots: while `value` is durable, a put moves it to `durable` and writes elsewhere, to `spare` where that
/// suits; the commit that makes the new value durable makes the old one the spare.
struct StoreEntry {
  std::optional<StoredValue> value;
  bool value_is_durable = false;       ///< `value` is the one of the last commit
  std::optional<StoredValue> durable;  ///< the value of the last commit, where that is not `value`
  std::optional<StoredValue> spare;    ///< room that no commit holds any more
  std::optional<Error> lost;           ///< why the last put left no value
  OpsOfKey ops;                        ///< waiting and running, in the order of the calls

  bool empty() const { return ops.empty() && !value && !durable && !spare && !lost; }
  /// Keeps a durable value out of the way of a put: `value` is the spare room afterwards, if there is any.
  void use_other_slot();
  /// Starts the operations whose turn it is, and appends them to `turn`. A put runs alone; gets run together until the
  /// next put.
  void start_next(OpsToStart& turn);
};

}  // namespace castor
