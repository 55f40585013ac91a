// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/plugins/abi.h>
#include <castor/plugins/lr_schedule.h>
#include <castor/training/param_groups.h>
#include <castor/training/run_state.h>

namespace castor {

/// The values of an optimizer with its schedule and groups, by their options.
RunSettings settings_of(const castor_step_args& values, const LrScheduleOptions& schedule,
                        const std::vector<GroupSummary>& groups);

/// One sentence on the settings that differ between a run that was saved and one that goes on with it; empty where none
/// does. `about`: what the sentence is about.
std::string settings_changed(const std::string& about, const RunSettings& was, const RunSettings& now);

}  // namespace castor
