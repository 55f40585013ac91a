// SPDX-License-Identifier: Apache-2.0
#include "store_entry.h"

#include <utility>

namespace castor {

void StoreEntry::use_other_slot() {
  if (!std::exchange(value_is_durable, false)) return;
  durable = std::exchange(value, std::exchange(spare, std::nullopt));
}

void StoreEntry::start_next(OpsToStart& turn) {
  for (StoreOp& op : ops) {
    const bool is_put = op.kind == StoreOp::Kind::put;
    if (is_put && (op.stage == StoreOp::Stage::held || &op != &ops.front())) return;
    if (std::exchange(op.stage, StoreOp::Stage::started) == StoreOp::Stage::waiting) turn.push_back(op);
    if (is_put) return;
  }
}

}  // namespace castor
