// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <castor/io/io_engine.h>

namespace castor {

/// Sets up a ring with a thread of its own; a no-op has gone through it. Errors: io, why the ring cannot be had.
/// (uring/ or no_uring/)
Result<std::unique_ptr<IoEngine>> make_uring_engine(const IoEngineOptions& options);

/// Starts the thread pool; it cannot be refused. `fallback_reason` is what the engine will say.
std::unique_ptr<IoEngine> make_threads_engine(const IoEngineOptions& options, std::string fallback_reason);

/// Starts the engine that moves nothing.
std::unique_ptr<IoEngine> make_null_engine(const IoEngineOptions& options);

}  // namespace castor
