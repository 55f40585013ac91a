// SPDX-License-Identifier: Apache-2.0
#include "burst.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <future>

namespace castor::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// The state that the places of one burst share.
struct Course {
  const DirectFile& file;
  const BurstJob& job;
  const std::uint64_t n_blocks;
  const Clock::time_point end;
  std::atomic<std::uint64_t> n_taken{0};  ///< blocks
  std::atomic<std::uint64_t> moved_bytes{0};

  IoRequest request_for(BufferView bytes) {
    const std::uint64_t offset_bytes = n_taken++ % n_blocks * job.block_bytes;
    return job.op == IoOp::read ? file.read_request(offset_bytes, bytes) : file.write_request(offset_bytes, bytes);
  }
};

/// One request in flight: as each ends, the next starts, until the time is up.
class Place final : public IoSink {
 public:
  Place(Course& course, BufferView bytes) : course_(course), bytes_(bytes) {}

  void start(IoEngine& engine) {
    request_ = course_.request_for(bytes_);
    engine.start(request_, *this);
  }
  Result<void> wait() { return ended_.get_future().get(); }

  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
    course_.moved_bytes += outcome.moved_bytes;
    if (outcome.ok() && Clock::now() < course_.end) return request_ = course_.request_for(bytes_);
    ended_.set_value(outcome.ok() ? Result<void>() : io_error(request_, outcome));
    return std::nullopt;
  }

 private:
  Course& course_;
  const BufferView bytes_;
  IoRequest request_;
  std::promise<Result<void>> ended_;
};

}  // namespace

Result<double> run_burst(IoEngine& engine, const DirectFile& file, std::uint64_t file_bytes, BufferView memory,
                         const BurstJob& job) {
  if (job.block_bytes == 0 || file_bytes < job.block_bytes)
    throw ContractViolation("a burst of blocks of " + std::to_string(job.block_bytes) + " bytes in a file of " +
                            std::to_string(file_bytes));
  const auto begin = Clock::now();
  const auto length = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(job.seconds));
  Course course{file, job, file_bytes / job.block_bytes, begin + length};
  std::deque<Place> places;
  for (unsigned i = 0; i < job.depth; ++i)
    places.emplace_back(course, memory.part(i * job.block_bytes, job.block_bytes));
  for (Place& place : places) place.start(engine);
  Result<void> ended;
  for (Place& place : places)
    if (auto one = place.wait(); !one.ok() && ended.ok()) ended = one;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!ended.ok()) return ended.error();
  return static_cast<double>(course.moved_bytes) / seconds;
}

}  // namespace castor::bench
