// SPDX-License-Identifier: Apache-2.0
#include <castor/io/bare_loop.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <string>

#include "engine/io_error.h"
#include "uring/ring.h"

namespace castor {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kSeed = 20211;

void check(const BareLoopJob& job) {
  const bool sizes = job.block_bytes > 0 && job.depth > 0 && job.file_bytes >= job.block_bytes && !job.files.empty();
  if (!sizes || job.memory.n_bytes / job.depth < job.block_bytes || job.read_percent > 100)
    throw ContractViolation("a bare loop of depth " + std::to_string(job.depth) + " and blocks of " +
                            std::to_string(job.block_bytes) + " bytes over " + std::to_string(job.files.size()) +
                            " files of " + std::to_string(job.file_bytes) + " bytes with " +
                            std::to_string(job.memory.n_bytes) + " bytes of memory");
}

/// One request at a time, each in the part of the memory that has been idle longest.
struct Place {
  std::byte* data = nullptr;
  bool reads = false;
};

class BareLoop {
 public:
  BareLoop(const BareLoopJob& job, Ring ring) : job_(job), ring_(std::move(ring)), random_(kSeed) {
    n_blocks_ = job.file_bytes / job.block_bytes * job.files.size();
    next_block_[1] = n_blocks_ / 2;  // in a mixed job reads and writes start at different places
    places_.resize(job.depth);
    for (std::uint64_t at = 0; at + job.block_bytes <= job.memory.n_bytes; at += job.block_bytes)
      free_.push_back(job.memory.data + at);
  }

  Result<BareLoopOutcome> run(const std::function<bool()>& stopped);

 private:
  void register_all();
  void prepare(Place& place);
  std::uint64_t next_block(bool reads);
  bool next_is_read();
  void submit_and_wait();
  bool kernel_holds_memory();
  void reap(bool more);
  void count(const Place& place, int answer);

  const BareLoopJob& job_;
  Ring ring_;
  std::mt19937_64 random_;
  std::vector<Place> places_;
  std::deque<std::byte*> free_;  ///< idle parts of the memory
  std::uint64_t n_blocks_ = 0;
  std::uint64_t next_block_[2] = {0, 0};  ///< of reads and of writes
  unsigned percent_owed_ = 0;             ///< reads that are due, in hundredths of a request
  bool registered_files_ = false;
  unsigned n_in_flight_ = 0;
  BareLoopOutcome outcome_;
  std::optional<Error> error_;
};

void BareLoop::register_all() {
  registered_files_ = true;
  for (unsigned i = 0; i < job_.files.size(); ++i)
    registered_files_ = registered_files_ && i < Ring::kNSlots && ring_.set_file(i, job_.files[i]) == 0;
  outcome_.registered_memory = ring_.set_buffer(0, job_.memory) == 0;
}

bool BareLoop::next_is_read() {
  percent_owed_ += job_.read_percent;
  if (percent_owed_ < 100) return false;
  percent_owed_ -= 100;
  return true;
}

std::uint64_t BareLoop::next_block(bool reads) {
  if (job_.random) return random_() % n_blocks_;
  std::uint64_t& next = next_block_[reads ? 0 : 1];
  return next++ % n_blocks_;
}

void BareLoop::prepare(Place& place) {
  place.reads = next_is_read();
  place.data = free_.front();
  free_.pop_front();
  const std::uint64_t block = next_block(place.reads);
  const std::size_t file = block % job_.files.size();
  io_uring_sqe* sqe = io_uring_get_sqe(ring_.get());
  fill_in(sqe, {place.reads,
                {place.data, job_.block_bytes},
                job_.files[file],
                block / job_.files.size() * job_.block_bytes,
                registered_files_ ? static_cast<int>(file) : -1,
                outcome_.registered_memory ? 0 : -1});
  io_uring_sqe_set_data(sqe, &place);
  ++n_in_flight_;
}

void BareLoop::count(const Place& place, int answer) {
  if (answer > 0) (place.reads ? outcome_.read_bytes : outcome_.written_bytes) += static_cast<std::uint64_t>(answer);
  if (answer == static_cast<int>(job_.block_bytes) || error_) return;
  error_ = Error{ErrorKind::io,
                 std::string("a ") + (place.reads ? "read" : "write") + " of " + std::to_string(job_.block_bytes) +
                     " bytes in a bare io_uring loop " +
                     (answer < 0 ? "failed: " + errno_text(-answer) : "moved " + std::to_string(answer) + " of them")};
}

void BareLoop::reap(bool more) {
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(ring_.get(), &cqe) == 0) {
    auto* place = static_cast<Place*>(io_uring_cqe_get_data(cqe));
    const int answer = cqe->res;
    io_uring_cqe_seen(ring_.get(), cqe);
    --n_in_flight_;
    free_.push_back(place->data);
    count(*place, answer);
    if (more && !error_) prepare(*place);
    if (!job_.batches) return;
  }
}

/// Requests that were prepared and not submitted count only while there is no error: then they will be submitted.
bool BareLoop::kernel_holds_memory() { return n_in_flight_ > (error_ ? io_uring_sq_ready(ring_.get()) : 0); }

void BareLoop::submit_and_wait() {
  io_uring_cqe* first = nullptr;
  const int answer = error_ ? io_uring_wait_cqe(ring_.get(), &first) : io_uring_submit_and_wait(ring_.get(), 1);
  const bool for_now = answer == -EINTR || answer == -EAGAIN || answer == -EBUSY;
  if (answer >= 0 || for_now || error_) return;
  error_ = Error{ErrorKind::io, "io_uring takes no more requests: " + errno_text(-answer)};
}

Result<BareLoopOutcome> BareLoop::run(const std::function<bool()>& stopped) {
  register_all();
  const auto begin = SteadyClock::now();
  const auto end =
      begin + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(job_.seconds));
  bool over = false;
  for (Place& place : places_) prepare(place);
  while (kernel_holds_memory()) {
    submit_and_wait();
    over = over || SteadyClock::now() >= end || stopped();
    reap(!over);
  }
  outcome_.seconds = std::chrono::duration<double>(SteadyClock::now() - begin).count();
  if (error_) return *error_;
  return outcome_;
}

}  // namespace

Result<BareLoopOutcome> run_bare_loop(const BareLoopJob& job, const std::function<bool()>& stopped) {
  check(job);
  CASTOR_ASSIGN(Ring ring, Ring::open({job.depth}));
  return BareLoop(job, std::move(ring)).run(stopped);
}

}  // namespace castor
