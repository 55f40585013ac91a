// SPDX-License-Identifier: Apache-2.0
#include "uring/ring.h"

#include <sys/resource.h>

#include <cerrno>
#include <utility>

#include <castor/memory/bytes.h>

#include "io_error.h"

namespace castor {
namespace {

std::string memlock_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(limit.rlim_cur);
}

/// Why a ring cannot be had, and what would change it.
std::string refusal(int error_number) {
  switch (error_number) {
    case ENOSYS: return "the kernel is older than 5.6 or a sandbox hides the call";
    case EPERM: return "the sysctl kernel.io_uring_disabled or a sandbox forbids it";
    case ENOMEM: return "raise the memlock limit of " + memlock_limit() + " (ulimit -l)";
    default: return "look at the kernel's log (dmesg)";
  }
}

Error refused(int error_number) {
  return {ErrorKind::io,
          "io_uring cannot be set up here (" + errno_text(error_number) + "; " + refusal(error_number) + ")"};
}

/// The kernel has all operations that the engine sends (5.6 and later).
bool has_operations(io_uring* ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  if (!probe) return false;
  bool has_all = true;
  for (const int op : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC})
    has_all = has_all && io_uring_opcode_supported(probe, op);
  io_uring_free_probe(probe);
  return has_all;
}

}  // namespace

int Ring::set_up(unsigned n_entries) {
  constexpr unsigned kFastest = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  int answer = io_uring_queue_init(n_entries, &ring_, kFastest);
  if (answer == -EINVAL) answer = io_uring_queue_init(n_entries, &ring_, 0);
  open_ = answer == 0;
  return -answer;
}

int Ring::send_no_op() {
  io_uring_prep_nop(io_uring_get_sqe(&ring_));
  io_uring_cqe* done = nullptr;
  const int n_submitted = io_uring_submit_and_wait(&ring_, 1);
  if (n_submitted < 0) return -n_submitted;
  const int answer = io_uring_wait_cqe(&ring_, &done);
  if (answer < 0) return -answer;
  const int result = done->res;
  io_uring_cqe_seen(&ring_, done);
  return -result;
}

Result<Ring> Ring::open(unsigned n_entries) {
  Ring ring;
  if (const int error_number = ring.set_up(n_entries)) return refused(error_number);
  if (const int error_number = ring.send_no_op()) return refused(error_number);
  if (!has_operations(ring.get())) return refused(ENOSYS);
  return ring;
}

Ring::Ring(Ring&& other) noexcept : ring_(other.ring_), open_(std::exchange(other.open_, false)) {}

Ring::~Ring() {
  if (open_) io_uring_queue_exit(&ring_);
}

}  // namespace castor
