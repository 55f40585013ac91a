// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <castor/chunk/chunk_layout.h>
#include <castor/plan/placement.h>
#include <castor/schedule/step_model.h>

#include "workload.h"

namespace castor::estimate {

/// The speeds of a machine.
struct Rates {
  double flops_per_s = 0;
  LinkCosts links;
  double host_update_bytes_per_s = 0, device_update_bytes_per_s = 0;  ///< memory traffic of an update
};

/// A model and the machine that is to train it.
struct Request {
  shapes::Model model;
  Workload work;
  std::uint64_t device_budget_bytes = 0, host_budget_bytes = 0;
  bool nvme = false;
  double nvme_fraction = 0;               ///< of the optimizer states, that lives on NVMe in any case
  std::optional<double> stream_fraction;  ///< of the states kept off the device, that the device updates; none: as much
                                          ///< as pays
  PlacementPolicy policy = PlacementPolicy::automatic;
  Rates rates;
};

/// The resources and the time that training would take.
struct Forecast {
  ChunkLayout layout;
  StatePlacement placement;
  NonModel non_model;
  MoveProblem problem;  ///< the device's room is the budget less activations and the allocator's slack
  StepPlan step;
  double update_s = 0;  ///< the part of the compute time that updates take
};

/// Decides as the gemini plugin does and plans one step, without allocating the model. Pure.
///
/// Cost: that of plan_step. Errors: does_not_fit, with the budget that would do; usage if a sample has more tokens than
/// the model has positions.
Result<Forecast> forecast(const Request& request);

}  // namespace castor::estimate
