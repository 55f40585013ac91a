// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/adam.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <system_error>
#include <utility>
#include <vector>

#include <castor/memory/worker_thread.h>

namespace castor {
namespace {

/// Threads take parts of this many elements in turn, so that none waits for a slower one for longer than a part takes, and a
/// worker is worth waking for no less: 1.8 MiB of fp32 states and 16-bit weights.
constexpr std::uint64_t kPartElements = std::uint64_t{64} << 10;

/// The elements of `arrays` from `first` on, `n` of them.
AdamArrays part_of(const AdamArrays& arrays, std::uint64_t first, std::uint64_t n) {
  AdamArrays part = arrays;
  part.master += first;
  part.exp_avg += first;
  part.exp_avg_sq += first;
  part.grad = static_cast<const std::byte*>(arrays.grad) + first * size_bytes(arrays.grad_dtype);
  part.weight = static_cast<std::byte*>(arrays.weight) + first * size_bytes(arrays.weight_dtype);
  part.n = n;
  return part;
}

/// The host's loop on the parts, which threads take in turn.
class HostAdamTeam final : public AdamKernel {
 public:
  explicit HostAdamTeam(unsigned n_threads) : n_threads_(n_threads) {}

  Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const AdamArrays& arrays) override {
    const std::uint64_t n_parts = (arrays.n + kPartElements - 1) / kPartElements;
    const std::uint64_t n_at_work = std::min<std::uint64_t>(n_parts, n_threads_);
    if (n_at_work < 2) return loop_->update(stream, coefficients, arrays);
    CASTOR_TRY(hire(n_at_work - 1));
    std::atomic<std::uint64_t> next = 0;
    const auto work = [&]() -> Result<void> {
      for (std::uint64_t part = next++; part < n_parts; part = next++) {
        const std::uint64_t first = part * kPartElements, n = std::min(kPartElements, arrays.n - first);
        CASTOR_TRY(loop_->update(stream, coefficients, part_of(arrays, first, n)));
      }
      return {};
    };
    std::vector<Event> done;
    for (std::uint64_t i = 0; i + 1 < n_at_work; ++i) done.push_back(workers_[i].run(work));
    auto outcome = work();
    for (const Event& event : done)  // all of them, before what they use goes
      if (auto ended = event.wait(); outcome.ok()) outcome = std::move(ended);
    return outcome;
  }

 private:
  /// Threads start when first there is work for them.
  Result<void> hire(std::size_t n_workers) {
    try {
      while (workers_.size() < n_workers) workers_.emplace_back();
    } catch (const std::system_error& refused) {
      return Error{ErrorKind::failed, "the update on the host wants " + std::to_string(n_threads_) +
                                          " threads, the system refused one (" + refused.what() +
                                          "); set update_threads lower"};
    }
    return {};
  }

  const unsigned n_threads_;
  const std::unique_ptr<AdamKernel> loop_ = make_host_adam();
  std::deque<WorkerThread> workers_;
};

}  // namespace

std::unique_ptr<AdamKernel> make_host_adam(unsigned n_threads) { return std::make_unique<HostAdamTeam>(n_threads); }

}  // namespace castor
