// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <castor/memory/event.h>
#include <castor/memory/result.h>

namespace castor {

/// Waits on the calling thread until `work` has ended, however it ends; `awaited` names it in messages. Errors: the
/// reason why the wait was given up; `work` goes on then, and keeps its bytes.
using HostWait = std::function<Result<void>(const Event& work, const std::string& awaited)>;

}  // namespace castor
