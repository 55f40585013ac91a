// SPDX-License-Identifier: Apache-2.0
#include "engine/backends.h"
#include "threads/threads_engine.h"

namespace castor {

/// The threads engine with one thread and a call that moves nothing and returns at once.
std::unique_ptr<IoEngine> make_null_engine(const IoEngineOptions& options) {
  IoEngineOptions one_thread = options;
  one_thread.n_threads = 1;
  return std::make_unique<ThreadsEngine>(one_thread, ThreadsEngine::Identity{"null", {}}, [](const TransferPart& part) {
    return static_cast<std::int64_t>(part.n_bytes);
  });
}

}  // namespace castor
