// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include <castor/memory/host_team.h>

namespace castor {

/// A job over `numel` elements in slices: `run(first, n)` for each. A slice fits one thread's cache, and there are
/// enough slices for every thread.
inline HostTeam::Job sliced_job(std::uint64_t numel,
                                std::function<Result<void>(std::uint64_t first, std::uint64_t n)> run) {
  static constexpr std::uint64_t kSlice = std::uint64_t{1} << 16;
  HostTeam::Job job;
  job.n_parts = static_cast<std::uint32_t>((numel + kSlice - 1) / kSlice);
  job.run = [numel, run = std::move(run)](std::uint32_t slice) {
    return run(slice * kSlice, std::min(kSlice, numel - slice * kSlice));
  };
  return job;
}

}  // namespace castor
