// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/step_args.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace castor {
namespace {

Error refused(std::string message) { return {ErrorKind::usage, std::move(message)}; }

Result<void> check_clipping(const castor_step_args& args) {
  if (!(args.max_value >= 0))
    return refused("clipping by value takes a max_value of 0 (off) or more, not " + std::to_string(args.max_value));
  if (args.max_value == 0 || args.max_norm == 0) return {};
  return refused("the step clips gradients to a norm of " + std::to_string(args.max_norm) + " and to values of " +
                 std::to_string(args.max_value) + "; set max_norm or max_value to 0");
}

Result<void> check_groups(const castor_step_args& args, std::uint32_t n_params) {
  if (args.n_groups == 0) return {};
  if (!args.groups || !args.group_of)
    return refused("the step has " + std::to_string(args.n_groups) +
                   " groups of parameters, but lacks the groups or the group of each parameter");
  for (std::uint32_t group = 0; group < args.n_groups; ++group)
    if (!args.groups[group] || args.groups[group]->struct_size < sizeof(castor_param_group))
      return refused("group " + std::to_string(group) + " of the step is null or shorter than version 1.5 has it");
  for (std::uint32_t param = 0; param < n_params; ++param)
    if (args.group_of[param] >= args.n_groups)
      return refused("parameter " + std::to_string(param) + " is in group " + std::to_string(args.group_of[param]) +
                     ", the step has " + std::to_string(args.n_groups));
  return {};
}

}  // namespace

castor_step_args known_fields(const castor_step_args& args) {
  castor_step_args known = {};
  std::memcpy(&known, &args, std::min<std::size_t>(args.struct_size, sizeof known));
  return known;
}

Result<void> check_step_args(const castor_step_args& args, std::uint32_t n_params) {
  const castor_step_args known = known_fields(args);
  CASTOR_TRY(check_clipping(known));
  return check_groups(known, n_params);
}

Result<void> check_support(const castor_plugin_info& plugin, const castor_step_args& args) {
  const castor_step_args known = known_fields(args);
  if (plugin.abi_minor >= 5 || (known.n_groups == 0 && known.max_value == 0)) return {};
  return refused(std::string("plugin ") + plugin.name + " speaks plugin ABI " + std::to_string(plugin.abi_major) + "." +
                 std::to_string(plugin.abi_minor) + " and knows no " +
                 (known.n_groups > 0 ? "groups of parameters" : "clipping by value") +
                 ", which came with 1.5; leave them out, or take a newer plugin");
}

StepOptions step_options(const castor_step_args& args, std::uint32_t n_params) {
  const castor_step_args known = known_fields(args);
  const auto adam = [&known](const auto& of) {
    return AdamOptions{of.lr,          of.beta1, of.beta2, of.eps, of.weight_decay, known.optimizer == CASTOR_ADAMW,
                       known.max_value};
  };
  StepOptions options{adam(known), known.max_norm, known.loss_scale};
  for (std::uint32_t group = 0; group < known.n_groups; ++group) options.groups.push_back(adam(*known.groups[group]));
  if (known.n_groups > 0) options.group_of.assign(known.group_of, known.group_of + n_params);
  return options;
}

}  // namespace castor
