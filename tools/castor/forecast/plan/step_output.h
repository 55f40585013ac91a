// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <castor/schedule/step_model.h>

#include "cli/cli.h"

namespace castor::cli {

/// Shared by `castor plan` and `castor estimate`: the options of the links, and the output of a planned step.

/// Adds --h2d-rate and the other links' options, in the order of kLinkNames; a rate without a default is optional.
struct RateOption {
  const char* default_rate = nullptr;
  const char* help = "";
};
void add_rate_options(CommandSyntax& syntax, const std::array<RateOption, kLinkNames.size()>& options);

/// Sets the costs of the links whose rate was given. Errors: usage.
Result<void> set_rates(const Values& values, LinkCosts& costs);

/// The value of --nvme. Errors: usage.
Result<std::optional<bool>> nvme_of(const Values& values);

using TierBytes = std::array<std::uint64_t, kNTiers>;

/// The peak that the chunks take of each tier; of NVMe, all chunks that are ever there.
TierBytes peak_bytes(const MoveProblem& problem, const MovePlan& plan);

/// The fields of a plan that both commands print.
nlohmann::json to_json(const StepPlan& step, const TierBytes& peak_bytes);

/// A line per tier: its peak beside `limits`. NVMe is left out if no chunk is there.
std::string tier_table(const TierBytes& peak_bytes, const std::string& limit_title,
                       const std::array<std::string, kNTiers>& limits);

/// A line per link that carries bytes.
std::string link_table(const StepPlan& step);

/// `step 1.2 s: computing …, waiting …; bound by h2d (…)`
std::string step_line(const StepPlan& step);

}  // namespace castor::cli
