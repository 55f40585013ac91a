// SPDX-License-Identifier: Apache-2.0
#include "store/checksum.h"

#include <xxhash.h>

namespace castor {

std::uint64_t checksum(BufferView bytes) { return XXH3_64bits(bytes.data, bytes.n_bytes); }

}  // namespace castor
