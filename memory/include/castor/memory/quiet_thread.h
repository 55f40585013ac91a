// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace castor {

/// Starts a thread that blocks every signal but those of its own faults: Ctrl-C reaches the program's own threads, and a
/// write beyond RLIMIT_FSIZE ends in EFBIG instead of a SIGXFSZ that kills the process. `name` (at most 15 characters)
/// shows in top and gdb. Throws std::system_error where the system gives no thread.
std::thread start_quiet_thread(const char* name, std::function<void()> body);

}  // namespace castor
