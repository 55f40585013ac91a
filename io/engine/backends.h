// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <castor/io/io_engine.h>

namespace castor {

/// Sets up a ring with a thread of its own and sends a no-op through it. Errors: io, with the reason that there is no
/// ring. (uring/ or no_uring/)
Result<std::unique_ptr<IoEngine>> make_uring_engine(const IoEngineOptions& options);

/// Starts the engine of blocking threads; it cannot fail. `fallback_reason`: the engine returns it.
std::unique_ptr<IoEngine> make_threads_engine(const IoEngineOptions& options, std::string fallback_reason);

/// Starts the engine that moves nothing.
std::unique_ptr<IoEngine> make_null_engine(const IoEngineOptions& options);

}  // namespace castor
