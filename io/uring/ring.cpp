// SPDX-License-Identifier: Apache-2.0
#include "uring/ring.h"

#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include <castor/memory/bytes.h>

#include "engine/io_error.h"

namespace castor {
namespace {

/// liburing maps and unmaps rings by system calls of its own: only the kernel knows that one ring's memory is unmapped
/// before another ring gets the same addresses. This counter orders the two for C++, and so for ThreadSanitizer.
std::atomic<unsigned> n_mapped_rings{0};

constexpr unsigned kPollerIdleMs = 50;  // how long the kernel's thread polls for work before it sleeps

/// The kernel processes completions when this thread asks for them, and a flag in shared memory says whether there are
/// any: a check costs no system call while there are none.
constexpr unsigned kDeferred = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;

struct Mode {
  unsigned flag;
  const char* name;
};
constexpr std::array<Mode, 4> kModes = {{{IORING_SETUP_SINGLE_ISSUER, "SINGLE_ISSUER"},
                                         {IORING_SETUP_DEFER_TASKRUN, "DEFER_TASKRUN"},
                                         {IORING_SETUP_SQPOLL, "SQPOLL"},
                                         {IORING_SETUP_IOPOLL, "IOPOLL"}}};

std::string memlock_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(limit.rlim_cur);
}

/// The reason that there is no ring, or advice.
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

/// Whether the kernel has all operations that the engine sends (5.6 and later).
bool has_operations(io_uring* ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  if (!probe) return false;
  bool has_all = true;
  for (const int op : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC, IORING_OP_ASYNC_CANCEL})
    has_all = has_all && io_uring_opcode_supported(probe, op);
  io_uring_free_probe(probe);
  return has_all;
}

}  // namespace

void fill_in(io_uring_sqe* entry, const RingMove& move) {
  const int file = move.file_slot >= 0 ? move.file_slot : move.fd;
  const auto n_bytes = static_cast<unsigned>(move.bytes.n_bytes);
  std::byte* const data = move.bytes.data;
  if (move.buffer_slot >= 0 && move.reads)
    io_uring_prep_read_fixed(entry, file, data, n_bytes, move.offset_bytes, move.buffer_slot);
  else if (move.buffer_slot >= 0)
    io_uring_prep_write_fixed(entry, file, data, n_bytes, move.offset_bytes, move.buffer_slot);
  else if (move.reads)
    io_uring_prep_read(entry, file, data, n_bytes, move.offset_bytes);
  else
    io_uring_prep_write(entry, file, data, n_bytes, move.offset_bytes);
  if (move.file_slot >= 0) entry->flags |= IOSQE_FIXED_FILE;
}

/// With SQPOLL a kernel thread runs the completions, which excludes DEFER_TASKRUN.
int Ring::set_up(const RingOptions& options) {
  unsigned asked = options.iopoll ? IORING_SETUP_IOPOLL : 0;
  asked |= options.sqpoll ? IORING_SETUP_SQPOLL : kDeferred;
  int answer = -EINVAL;
  for (const unsigned flags : {asked | IORING_SETUP_SINGLE_ISSUER, asked & ~kDeferred}) {
    io_uring_params params{};
    params.flags = flags;
    params.sq_thread_idle = kPollerIdleMs;
    answer = io_uring_queue_init_params(options.n_entries, &ring_, &params);
    if (answer != -EINVAL) break;
  }
  open_ = answer == 0;
  if (open_) n_mapped_rings.fetch_add(1, std::memory_order_acq_rel);
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

Result<Ring> Ring::open(const RingOptions& options) {
  Ring ring;
  if (const int error_number = ring.set_up(options)) return refused(error_number);
  if (!ring.polls())
    if (const int error_number = ring.send_no_op()) return refused(error_number);
  if (!has_operations(ring.get())) return refused(ENOSYS);
  ring.has_slots_ = io_uring_register_files_sparse(&ring.ring_, kNSlots) == 0 &&
                    io_uring_register_buffers_sparse(&ring.ring_, kNSlots) == 0;
  return ring;
}

Ring::Ring(Ring&& other) noexcept
    : ring_(other.ring_), open_(std::exchange(other.open_, false)), has_slots_(other.has_slots_) {}

/// The kernel takes a ring down later on its own: without this its files, and their locks, would stay open a while.
Ring::~Ring() {
  if (!open_) return;
  if (has_slots_) io_uring_unregister_files(&ring_);
  n_mapped_rings.fetch_sub(1, std::memory_order_acq_rel);
  io_uring_queue_exit(&ring_);
}

io_uring_sqe* Ring::next_entry() {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (!entry) {
    io_uring_submit(&ring_);
    io_uring_sqring_wait(&ring_);
    entry = io_uring_get_sqe(&ring_);
  }
  return entry;
}

std::string Ring::modes() const {
  std::string text;
  for (const auto& mode : kModes)
    if ((ring_.flags & mode.flag) != 0) text += (text.empty() ? "" : ", ") + std::string(mode.name);
  return text.empty() ? "plain completions" : text;
}

int Ring::set_file(unsigned slot, int fd) {
  if (!has_slots_) return ENOSYS;
  const int answer = io_uring_register_files_update(&ring_, slot, &fd, 1);
  return answer < 0 ? -answer : 0;
}

int Ring::set_buffer(unsigned slot, BufferView bytes) {
  if (!has_slots_) return ENOSYS;
  const iovec range{bytes.data, bytes.n_bytes};
  const __u64 tag = 0;
  const int answer = io_uring_register_buffers_update_tag(&ring_, slot, &range, &tag, 1);
  return answer < 0 ? -answer : 0;
}

}  // namespace castor
