// SPDX-License-Identifier: Apache-2.0
#include "uring/wake_up.h"

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "engine/io_error.h"

namespace castor {

Result<WakeUp> WakeUp::make() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC));
  if (!fd) return path_error("cannot make an eventfd for io_uring", "", errno);
  return WakeUp(std::move(fd));
}

void WakeUp::wake() {
  const std::uint64_t one = 1;
  while (::write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void WakeUp::arm(io_uring_sqe* entry) {
  io_uring_prep_read(entry, fd_.get(), &count_, sizeof count_, 0);
  armed_ = true;
}

void WakeUp::sleep() {
  while (::read(fd_.get(), &count_, sizeof count_) < 0 && errno == EINTR) {
  }
}

}  // namespace castor
