// SPDX-License-Identifier: Apache-2.0
#include <castor/io/io_engine.h>

#include "engine/backends.h"

namespace castor {
namespace {

Error not_built() {
  return {ErrorKind::io, "io_uring is not in this build (liburing 2.3 or later was not found when it was configured)"};
}

}  // namespace

Result<std::unique_ptr<IoEngine>> make_uring_engine(const IoEngineOptions&) { return not_built(); }

Result<std::string> probe_io_uring() { return not_built(); }

}  // namespace castor
