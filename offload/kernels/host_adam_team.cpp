// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/adam.h>

#include <algorithm>
#include <deque>
#include <system_error>
#include <utility>
#include <vector>

#include <castor/memory/worker_thread.h>

namespace castor {
namespace {

/// Parts begin at multiples of this, and a worker is worth waking for no less: 1.8 MiB of fp32 states and 16-bit weights.
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

/// The host's loop, an equal part of the elements to each thread.
class HostAdamTeam final : public AdamKernel {
 public:
  explicit HostAdamTeam(unsigned n_threads) : n_threads_(n_threads) {}

  Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const AdamArrays& arrays) override {
    const std::uint64_t n_grains = (arrays.n + kPartElements - 1) / kPartElements;
    const std::uint64_t n_parts = std::min<std::uint64_t>(n_grains, n_threads_);
    if (n_parts < 2) return loop_->update(stream, coefficients, arrays);
    const auto begin = [&](std::uint64_t part) {
      return std::min(part * n_grains / n_parts * kPartElements, arrays.n);
    };
    const auto update_part = [&](std::uint64_t part) {
      return loop_->update(stream, coefficients, part_of(arrays, begin(part), begin(part + 1) - begin(part)));
    };
    CASTOR_TRY(hire(n_parts - 1));
    std::vector<Event> done;
    for (std::uint64_t part = 1; part < n_parts; ++part)
      done.push_back(workers_[part - 1].run([&update_part, part] { return update_part(part); }));
    auto outcome = update_part(0);
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
