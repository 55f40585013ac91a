// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/lr_schedule.h>

#include "train/group_option.h"

namespace castor::train {

/// A group as a report tells it.
struct GroupSummary {
  std::string selector;
  std::uint64_t n_tensors = 0, n_params = 0;
  double lr = 0;                                           ///< the largest rate
  double beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;  ///< as far as the optimizer has them
  castor_optimizer optimizer = CASTOR_ADAMW;
  double momentum = 0, trust_coefficient = 0;
};

/// The groups of a model's parameters: those that --group names, where the first that selects a parameter has it, and
/// behind them `*` for all others, where there are any.
///
/// A group's rate goes the way of the schedule to its own largest rate: it is made of the same options, with lr in place
/// of theirs and min_lr as far below it.
class ParamGroups {
 public:
  /// `others` has the values of those that no group selects, and what a group leaves out; `schedule` is valid. Errors:
  /// usage, where a group selects nothing; then with the selectors that are near.
  static Result<ParamGroups> make(const std::vector<GroupOption>& wanted, const castor_step_args& others,
                                  const LrScheduleOptions& schedule, std::span<const castor_param_info> params);

  /// Has `args` say the groups with their rates in step `step`; they are valid until the next call. Without --group `args`
  /// stay as they are.
  void set(std::int64_t step, castor_step_args& args);

  const std::vector<GroupSummary>& summaries() const { return summaries_; }

 private:
  ParamGroups() = default;
  Result<void> add(const GroupOption& group, const castor_step_args& others, const LrScheduleOptions& schedule);
  void assign(const std::vector<GroupOption>& groups, std::span<const castor_param_info> params);

  bool asked_ = false;  ///< for any
  std::vector<GroupSummary> summaries_;
  std::vector<LrSchedule> schedules_;
  std::vector<castor_param_group> groups_;
  std::vector<const castor_param_group*> pointers_;  ///< to those
  std::vector<std::uint32_t> group_of_;
};

}  // namespace castor::train
