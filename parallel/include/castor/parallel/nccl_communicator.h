// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>

#include <castor/parallel/communicator.h>

namespace castor {

/// The name of a group that is to be formed. Rank 0 makes it, the launcher's store carries it to the others.
struct NcclId {
  std::array<char, 128> bytes{};
};

/// Errors: failed, with NCCL's message, or with how to get NCCL where the build has none.
Result<NcclId> make_nccl_id();

/// Joins the group `id` as `rank` of `world_size` with CUDA device `ordinal`, a device of its own for every rank.
///
/// Blocks until all ranks have called it. Collectives take memory of that device and its streams. NVLink multicast
/// (NVLS) is left off where NCCL's configuration has the switch (2.32 and later); older ones obey NCCL_NVLS_ENABLE=0.
/// The destructor waits for queued collectives; after an asynchronous error it aborts them. Errors: usage for a rank
/// outside the world or a device that is not there; failed with NCCL's message, without a GPU or without NCCL.
Result<std::unique_ptr<Communicator>> make_nccl_communicator(int rank, int world_size, const NcclId& id, int ordinal);

}  // namespace castor
