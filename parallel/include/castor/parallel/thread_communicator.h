// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include <castor/parallel/communicator.h>

namespace castor {

/// A group of `world_size` ranks inside this process, over host memory; element r is rank r. Made for tests: results
/// have the same bits on every machine, and a call that the ranks do not agree on is an error where other backends
/// hang.
///
/// Every rank has a worker thread of its own, so collectives run beside the thread that queues them. A stream of the
/// CPU device is never held up; a CUDA stream makes the queueing thread wait. Requires: world_size > 0
/// (ContractViolation).
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int world_size);

}  // namespace castor
