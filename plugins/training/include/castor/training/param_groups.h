// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/lr_schedule.h>

namespace castor {

/// Values of some parameters, as a group of torch.optim has them. A value that it leaves out is that of the step.
struct ParamGroup {
  std::string selector;  ///< a glob over the names of parameters, or kVectors; a mere title where there are `names`
  std::optional<double> lr, eps, weight_decay, momentum, trust_coefficient;
  std::optional<std::pair<double, double>> betas;
  std::set<std::string, std::less<>> names = {};  ///< of the parameters, in place of a selector
};

/// Selects the parameters of fewer than two dimensions: biases and norms.
inline constexpr const char* kVectors = "vectors";

/// A group with all its values.
struct GroupSummary {
  std::string selector;
  std::uint64_t n_tensors = 0, n_params = 0;
  double lr = 0;                                           ///< the largest rate
  double beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;  ///< as far as the optimizer has them
  castor_optimizer optimizer = CASTOR_ADAMW;
  double momentum = 0, trust_coefficient = 0;
};

/// The groups of a model's parameters: those asked for, where a parameter belongs to the first that selects it. The
/// other parameters, if there are any, form the last group, `*`.
///
/// A group's rate follows the schedule scaled to its own largest rate: the schedule has the same options, but lr is the
/// group's and min_lr changes by the same factor.
class ParamGroups {
 public:
  /// `others` has the values of the parameters that no group selects, and those that a group leaves out; `schedule` is
  /// valid. Errors: usage if a group selects nothing, naming similar selectors.
  static Result<ParamGroups> make(const std::vector<ParamGroup>& wanted, const castor_step_args& others,
                                  const LrScheduleOptions& schedule, std::span<const castor_param_info> params);

  /// Sets the groups in `args`, with their rates in step `step`; the pointers are valid until the next call. Where no
  /// group was asked for, `args` is unchanged.
  void set(std::int64_t step, castor_step_args& args);

  const std::vector<GroupSummary>& summaries() const { return summaries_; }

 private:
  ParamGroups() = default;
  Result<void> add(const ParamGroup& group, const castor_step_args& others, const LrScheduleOptions& schedule);
  void assign(const std::vector<ParamGroup>& groups, std::span<const castor_param_info> params);

  bool asked_ = false;  ///< some group was
  std::vector<GroupSummary> summaries_;
  std::vector<LrSchedule> schedules_;
  std::vector<castor_param_group> groups_;
  std::vector<const castor_param_group*> pointers_;  ///< to the elements of groups_
  std::vector<std::uint32_t> group_of_;
};

}  // namespace castor
