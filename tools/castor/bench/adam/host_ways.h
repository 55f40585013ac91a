// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "bench/adam/adam_memory.h"
#include "bench/adam/team.h"
#include "bench/adam/torch_adam.h"
#include "bench/adam/way.h"

namespace castor::bench {

/// The ways to update the same arrays on the host, or to move their bytes. The ways borrow this object.
class HostWays {
 public:
  /// Errors: does_not_fit; failed if the system does not grant `n_most_threads`.
  static Result<std::unique_ptr<HostWays>> make(std::uint64_t n_elements, unsigned n_most_threads);

  /// Castor's update of `n` elements from `first` on, by its own team of threads.
  Result<Way> update(unsigned n_threads, std::uint64_t first, std::uint64_t n);
  /// Castor's loop on parts of all elements, which the threads take in turn.
  Result<Way> update_in_parts(unsigned n_threads, std::uint64_t part_elements);
  /// The bare loop on the elements from `first` on, in every cut and prefetch distance; the fastest is the ceiling.
  Result<std::vector<Way>> bare(unsigned n_threads, std::uint64_t first, std::uint64_t n);
  /// torch's fused AdamW. Errors: failed if this build has no LibTorch.
  Result<Way> torch(unsigned n_threads, bool with_casts);

  std::uint64_t n_elements() const { return memory_->arrays().n; }
  UpdateArrays arrays() const { return memory_->arrays(); }

 private:
  HostWays() = default;
  Result<Team*> team(unsigned n_threads);

  std::map<unsigned, std::unique_ptr<Team>> teams_;
  std::map<unsigned, std::unique_ptr<AdamKernel>> kernels_;  ///< Castor's own teams, by number of threads
  const std::unique_ptr<AdamKernel> loop_ = make_host_adam();
  const std::unique_ptr<Stream> stream_ = make_cpu_device()->wrap_compute_stream(nullptr);
  std::unique_ptr<AdamMemory> memory_;
  std::unique_ptr<TorchAdam> torch_;
};

}  // namespace castor::bench
