// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <castor/memory/stream.h>

namespace castor {

/// A stream of the host, which also runs functions: work of the host beside the thread that queues it.
class HostLane : public Stream {
 public:
  /// What it returns is how it ended.
  using Task = std::function<Result<void>()>;

  /// Queues `task`, which must not throw; returns the event of its end. After a failure it is left out, as copies are.
  virtual Event run(Task task) = 0;
};

/// A lane that is one thread, which sleeps while there is nothing to do. Its destructor runs what is queued to its end.
/// Errors: failed, where the system gives no thread.
Result<std::unique_ptr<HostLane>> make_host_lane();

}  // namespace castor
