// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <castor/io/io_engine.h>

namespace castor {

/// Requests an engine takes before it holds callers back. At 1 MiB each this is more than any drive needs to be busy,
/// and a ring of it stays far below an 8 MiB memlock limit.
inline constexpr std::size_t kNPlaces = 128;

/// Sets up a ring with a thread of its own; a no-op has gone through it. Errors: io, why the ring cannot be had.
/// (uring/ or no_uring/)
Result<std::unique_ptr<IoEngine>> make_uring_engine();

/// Starts the thread pool; it cannot be refused. `fallback_reason` is what the engine will say.
std::unique_ptr<IoEngine> make_threads_engine(std::string fallback_reason);

}  // namespace castor
