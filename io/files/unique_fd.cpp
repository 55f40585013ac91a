// SPDX-License-Identifier: Apache-2.0
#include <castor/io/unique_fd.h>

#include <unistd.h>

namespace castor {

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace castor
