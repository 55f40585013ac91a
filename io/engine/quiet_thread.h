// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace castor {

/// Starts a thread that no signal is delivered to: Ctrl-C stays with the program's own threads, and a file that reaches
/// RLIMIT_FSIZE ends in EFBIG instead of a SIGXFSZ that kills the process. `name` (at most 15 characters) is what top
/// and gdb show.
std::thread start_quiet_thread(const char* name, std::function<void()> body);

}  // namespace castor
