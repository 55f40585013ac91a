// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/parallel/communicator.h>

namespace castor {

/// The requirements of Communicator's collectives, the same for every backend. Each throws ContractViolation with the
/// numbers.

/// `data` is not null unless it is empty.
void check_bytes(const char* collective, BufferView data);
/// `data` is not null unless it is empty, and holds whole elements.
void check_elements(const char* collective, BufferView data, DType dtype);
/// `whole` has `world_size` times the bytes of `part`, which is apart from it or exactly its part `rank`.
void check_parts(const char* collective, BufferView whole, BufferView part, int rank, int world_size);
/// `root` is a rank.
void check_root(const char* collective, int root, int world_size);

}  // namespace castor
