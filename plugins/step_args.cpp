// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/step_args.h>

#include <cmath>
#include <string>

namespace castor {
namespace {

Error usage_error(std::string message, std::string option = "") {
  return {ErrorKind::usage, std::move(message), std::move(option)};
}

Result<void> check_clipping(const castor_step_args& args) {
  if (!(args.max_value >= 0))
    return usage_error("clipping by value takes a max_value of 0 (off) or more, not " + std::to_string(args.max_value),
                       "max_value");
  if (args.max_value > 0 && (args.optimizer == CASTOR_LARS || args.optimizer == CASTOR_LAMB))
    return usage_error("the step clips gradients to values of " + std::to_string(args.max_value) + ", and " +
                           (args.optimizer == CASTOR_LARS ? "LARS measures" : "LAMB takes") +
                           " them as they are; set max_value to 0",
                       "max_value");
  if (args.max_value == 0 || args.max_norm == 0) return {};
  return usage_error("the step clips gradients to a norm of " + std::to_string(args.max_norm) + " and to values of " +
                         std::to_string(args.max_value) + "; set max_norm or max_value to 0",
                     "max_value");
}

Error out_of_range(const std::string& of, const std::string& option, const std::string& takes, double given) {
  return usage_error(of + option + " takes " + takes + ", not " + std::to_string(given), option);
}

Result<void> check_from_0(const std::string& of, const std::string& option, double given) {
  if (given >= 0 && std::isfinite(given)) return {};
  return out_of_range(of, option, "a finite number of 0 or more", given);
}

Result<void> check_below_1(const std::string& of, const std::string& option, double given) {
  if (given >= 0 && given < 1) return {};
  return out_of_range(of, option, "a number from 0 to below 1", given);
}

/// Checks the values that the optimizer looks at; `of` is put before their names.
Result<void> check_values(std::uint32_t optimizer, const castor_param_group& values, const std::string& of) {
  const bool has_momentum = optimizer == CASTOR_SGD || optimizer == CASTOR_LARS;
  CASTOR_TRY(check_from_0(of, "lr", values.lr));
  CASTOR_TRY(check_from_0(of, "weight_decay", values.weight_decay));
  if (optimizer != CASTOR_SGD) CASTOR_TRY(check_from_0(of, "eps", values.eps));
  if (has_momentum) CASTOR_TRY(check_below_1(of, "momentum", values.momentum));
  if (optimizer == CASTOR_LARS) CASTOR_TRY(check_from_0(of, "trust_coefficient", values.trust_coefficient));
  if (has_momentum) return {};
  CASTOR_TRY(check_below_1(of, "beta1", values.beta1));
  return check_below_1(of, "beta2", values.beta2);
}

Result<void> check_scales(const castor_step_args& args) {
  if (!(args.loss_scale > 0) || !std::isfinite(args.loss_scale))
    return out_of_range("", "loss_scale", "the number by which the loss was multiplied, 1 where it was not",
                        args.loss_scale);
  if (args.max_norm >= 0) return {};
  return out_of_range("", "max_norm", "0 (off) or more", args.max_norm);
}

Result<void> check_groups(const castor_step_args& args, std::uint32_t n_params) {
  if (args.n_groups == 0) return {};
  if (!args.groups || !args.group_of)
    return usage_error("the step has " + std::to_string(args.n_groups) +
                       " groups of parameters, but lacks the groups or the group of each parameter");
  for (std::uint32_t group = 0; group < args.n_groups; ++group)
    if (!args.groups[group] || args.groups[group]->struct_size < sizeof(castor_param_group))
      return usage_error("group " + std::to_string(group) + " of the step is null or shorter than version 2.0 has it");
  for (std::uint32_t param = 0; param < n_params; ++param)
    if (args.group_of[param] >= args.n_groups)
      return usage_error("parameter " + std::to_string(param) + " is in group " + std::to_string(args.group_of[param]) +
                         ", the step has " + std::to_string(args.n_groups));
  return {};
}

Result<void> check_optimizer(const castor_step_args& args) {
  if (args.optimizer <= CASTOR_LAMB) return {};
  return usage_error("the step is one of optimizer " + std::to_string(args.optimizer) + ", this version knows 0 to " +
                     std::to_string(CASTOR_LAMB));
}

AdamOptions adam_options(const castor_step_args& args, const castor_param_group& of) {
  return {of.lr, of.beta1, of.beta2, of.eps, of.weight_decay, args.optimizer == CASTOR_ADAMW, args.max_value};
}

SgdOptions sgd_options(const castor_step_args& args, const castor_param_group& of) {
  const double trust_coefficient = args.optimizer == CASTOR_LARS ? of.trust_coefficient : 0;
  return {of.lr, of.momentum, of.weight_decay, args.nesterov != 0, args.max_value, trust_coefficient, of.eps};
}

LambOptions lamb_options(const castor_param_group& of) { return {of.lr, of.beta1, of.beta2, of.eps, of.weight_decay}; }

UpdateOptions update_options(const castor_step_args& args, const castor_param_group& of) {
  if (args.optimizer <= CASTOR_ADAMW) return adam_options(args, of);
  if (args.optimizer == CASTOR_LAMB) return lamb_options(of);
  return sgd_options(args, of);
}

/// The values of the step itself in the form of a group.
castor_param_group everybody(const castor_step_args& args) {
  return {sizeof(castor_param_group), args.lr, args.beta1, args.beta2, args.eps, args.weight_decay, args.momentum,
          args.trust_coefficient};
}

}  // namespace

Result<void> check_step_args(const castor_step_args& args, std::uint32_t n_params) {
  CASTOR_TRY(check_optimizer(args));
  CASTOR_TRY(check_scales(args));
  CASTOR_TRY(check_clipping(args));
  CASTOR_TRY(check_groups(args, n_params));
  if (args.n_groups == 0) return check_values(args.optimizer, everybody(args), "");
  for (std::uint32_t group = 0; group < args.n_groups; ++group)
    CASTOR_TRY(check_values(args.optimizer, *args.groups[group], "group " + std::to_string(group) + " of the step: "));
  return {};
}

StepOptionsBy<ParamId> step_options(const castor_step_args& args, std::uint32_t n_params) {
  StepOptionsBy<ParamId> options{update_options(args, everybody(args)), args.max_norm, args.loss_scale};
  for (std::uint32_t group = 0; group < args.n_groups; ++group)
    options.groups.push_back(update_options(args, *args.groups[group]));
  if (args.n_groups == 0) return options;
  for (std::uint32_t param = 0; param < n_params; ++param) options.group_of.push_back(GroupId{args.group_of[param]});
  return options;
}

}  // namespace castor
