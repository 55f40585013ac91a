// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <castor/memory/device_kind.h>
#include <castor/memory/tier.h>
#include <castor/plan/link_costs.h>
#include <castor/plan/step_estimate.h>

namespace castor {

/// The machine of a forecast: one device and its host. The defaults are those of one H200 and its host for weights of 16
/// bits (docs/planning.md).
struct ForecastMachine {
  DeviceKind kind = DeviceKind::cuda;  ///< cpu: the device is the host, and its budget holds chunks alone
  std::uint64_t device_bytes = std::uint64_t{141} << 30;
  std::uint64_t host_bytes = std::uint64_t{256} << 30;  ///< available, where the options state no budget
  double flops_per_s = 450e12;                          ///< that the model's products reach
  double compute_slowdown = 1;                          ///< their time beside updates on the host, over that alone
  LinkCosts links = {.h2d = 1 / 55.3e9, .d2h = 1 / 55.3e9, .nvme_read = 1 / 3.2e9, .nvme_write = 1 / 1.6e9};
  /// Memory traffic of updates; on the host beside no copies.
  double host_update_bytes_per_s = 135e9, device_update_bytes_per_s = 4.4e12;
};

/// The resources and the time that training takes.
struct Forecast {
  std::uint64_t n_params = 0;  ///< elements of all parameters
  std::uint64_t n_chunks = 0;
  std::uint64_t n_chunk_sizes = 0, smallest_chunk_bytes = 0, largest_chunk_bytes = 0;
  std::uint64_t n_on_device = 0;                    ///< chunks whose states are kept on the device
  std::uint64_t n_streamed = 0;                     ///< chunks whose states are copied there for each update
  std::uint64_t n_speculative = 0;                  ///< chunks that are updated before the norm is known
  std::uint64_t speculation_bytes = 0;              ///< of the host, that these take
  std::uint64_t non_model_bytes = 0;                ///< of the device, beside chunks, at the most
  std::array<std::uint64_t, kNTiers> peak_bytes{};  ///< of the whole run, its first step included
  StepEstimate step;                                ///< on average of the last ones
  double planned_link_s = 0;    ///< the moves of the plan in force, as if links worked one after the other
  double link_bound_s = 0;      ///< the least that moves take in any plan
  double room_aside_times = 0;  ///< StepPlan::times
  double update_s = 0;          ///< all updates of a step together
};

}  // namespace castor
