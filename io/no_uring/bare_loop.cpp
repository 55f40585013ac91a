// SPDX-License-Identifier: Apache-2.0
#include <castor/io/bare_loop.h>

#include <castor/io/io_engine.h>

namespace castor {

Result<BareLoopOutcome> run_bare_loop(const BareLoopJob&, const std::function<bool()>&) {
  return probe_io_uring().error();
}

}  // namespace castor
