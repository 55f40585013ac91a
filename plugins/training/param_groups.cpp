// SPDX-License-Identifier: Apache-2.0
#include <castor/training/param_groups.h>

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include <castor/plugins/nearest_name.h>

namespace castor {
namespace {

bool selects(const std::string& selector, const castor_param_info& param) {
  if (selector == kVectors) return param.ndim < 2;
  return ::fnmatch(selector.c_str(), param.name, 0) == 0;
}

bool selects(const ParamGroup& group, const castor_param_info& param) {
  return group.names.empty() ? selects(group.selector, param) : group.names.contains(std::string_view(param.name));
}

bool selects_any(const ParamGroup& group, std::span<const castor_param_info> params) {
  return std::any_of(params.begin(), params.end(), [&](const auto& param) { return selects(group, param); });
}

/// Selectors that match some parameter: full names, and names with a star before or after any of their dots.
std::vector<std::string> likely_selectors(std::span<const castor_param_info> params) {
  std::set<std::string> likely = {kVectors};
  for (const castor_param_info& param : params) {
    const std::string name = param.name;
    likely.insert(name);
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      likely.insert("*" + name.substr(dot));
      likely.insert(name.substr(0, dot + 1) + "*");
    }
  }
  return {likely.begin(), likely.end()};
}

Error nothing_selected(const ParamGroup& group, std::span<const castor_param_info> params) {
  const std::string& selector = group.selector;
  const std::string what = "`groups` " + selector + ": ";
  if (selects_any(group, params))
    return {ErrorKind::usage, what + "the groups before it have every parameter that it selects; the first one counts",
            "groups"};
  std::string example = params.empty() ? "" : std::string("; the first is '") + params.front().name + "'";
  return {ErrorKind::usage,
          what + "selects none of the " + std::to_string(params.size()) + " parameters of the model" + example +
              did_you_mean(selector, likely_selectors(params)),
          "groups"};
}

/// `schedule`, scaled to another largest rate.
LrScheduleOptions scaled_to(double lr, LrScheduleOptions schedule) {
  if (schedule.lr > 0) schedule.min_lr = std::min(lr, schedule.min_lr * (lr / schedule.lr));
  schedule.lr = lr;
  return schedule;
}

}  // namespace

Result<ParamGroups> ParamGroups::make(const std::vector<ParamGroup>& wanted, const castor_step_args& others,
                                      const LrScheduleOptions& schedule, std::span<const castor_param_info> params) {
  std::vector<ParamGroup> groups = wanted;
  groups.push_back({.selector = "*"});
  ParamGroups made;
  made.asked_ = !wanted.empty();
  for (const ParamGroup& group : groups) CASTOR_TRY(made.add(group, others, schedule));
  made.assign(groups, params);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (made.summaries_[i].n_tensors == 0) return nothing_selected(wanted[i], params);
  if (made.summaries_.back().n_tensors == 0) made.summaries_.pop_back(), made.schedules_.pop_back();
  return made;
}

Result<void> ParamGroups::add(const ParamGroup& group, const castor_step_args& others,
                              const LrScheduleOptions& schedule) {
  GroupSummary summary{group.selector};
  summary.lr = group.lr.value_or(schedule.lr);
  std::tie(summary.beta1, summary.beta2) = group.betas.value_or(std::pair(others.beta1, others.beta2));
  summary.eps = group.eps.value_or(others.eps);
  summary.weight_decay = group.weight_decay.value_or(others.weight_decay);
  summary.optimizer = others.optimizer;
  summary.momentum = group.momentum.value_or(others.momentum);
  summary.trust_coefficient = group.trust_coefficient.value_or(others.trust_coefficient);
  CASTOR_ASSIGN(LrSchedule rates, LrSchedule::make(scaled_to(summary.lr, schedule)));
  schedules_.push_back(std::move(rates));
  summaries_.push_back(std::move(summary));
  return {};
}

void ParamGroups::assign(const std::vector<ParamGroup>& groups, std::span<const castor_param_info> params) {
  for (const castor_param_info& param : params) {
    const auto of =
        std::find_if(groups.begin(), groups.end(), [&](const ParamGroup& group) { return selects(group, param); });
    const auto number = static_cast<std::uint32_t>(of - groups.begin());
    group_of_.push_back(number);
    ++summaries_[number].n_tensors;
    summaries_[number].n_params += param.numel;
  }
}

void ParamGroups::set(std::int64_t step, castor_step_args& args) {
  if (!asked_) return;
  groups_.clear(), pointers_.clear();
  for (std::size_t i = 0; i < summaries_.size(); ++i) {
    const GroupSummary& of = summaries_[i];
    groups_.push_back({sizeof(castor_param_group), schedules_[i].at(step), of.beta1, of.beta2, of.eps, of.weight_decay,
                       of.momentum, of.trust_coefficient});
  }
  for (const castor_param_group& group : groups_) pointers_.push_back(&group);
  args.n_groups = static_cast<std::uint32_t>(groups_.size());
  args.groups = pointers_.data();
  args.group_of = group_of_.data();
}

}  // namespace castor
