// SPDX-License-Identifier: Apache-2.0
#include "train/options/group_option.h"

#include <algorithm>
#include <cmath>

#include <castor/plugins/nearest_name.h>
#include <castor/training/optimizer_families.h>

namespace castor::train {
namespace {

/// The values that a group can set for `optimizer`.
std::vector<std::string> value_names(castor_optimizer optimizer) {
  if (has_trust_coefficient(optimizer)) return {"lr", "weight_decay", "momentum", "trust_coefficient", "eps"};
  if (has_momentum(optimizer)) return {"lr", "weight_decay", "momentum"};
  return {"lr", "betas", "eps", "weight_decay"};
}

Error refused(const std::string& group, const std::string& why) {
  return {ErrorKind::usage, "--group " + group + ": " + why};
}

/// Reads numbers from 0 to below `end`, separated by slashes, one for each of `targets`.
bool read_numbers(const std::string& text, double end, const std::vector<double*>& targets) {
  const std::vector<std::string> parts = cli::split(text, '/');
  if (parts.size() != targets.size()) return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto parsed = cli::number<double>(parts[i]);
    if (!parsed || !(*parsed >= 0 && *parsed < end)) return false;
    *targets[i] = *parsed;
  }
  return true;
}

Result<void> read_betas(const std::string& group, const std::string& text, ParamGroup& target) {
  if (target.betas) return refused(group, "betas is given twice");
  auto& [beta1, beta2] = target.betas.emplace();
  if (read_numbers(text, 1, {&beta1, &beta2})) return {};
  return refused(group, "betas takes two numbers from 0 to below 1, as 0.9/0.95, not '" + text + "'");
}

/// The member of `group` that the option calls `name`.
std::optional<double>& number_of(ParamGroup& group, const std::string& name) {
  if (name == "lr") return group.lr;
  if (name == "eps") return group.eps;
  if (name == "trust_coefficient") return group.trust_coefficient;
  return name == "momentum" ? group.momentum : group.weight_decay;
}

/// Reads `name=value` of a group.
Result<void> read_value(const std::string& group, const std::string& text, castor_optimizer optimizer,
                        ParamGroup& target) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals), value = text.substr(std::min(equals + 1, text.size()));
  const std::vector<std::string> names = value_names(optimizer);
  if (std::find(names.begin(), names.end(), name) == names.end())
    return refused(group, "there is no '" + name + "'; a group" +
                              (optimizer == CASTOR_ADAMW ? "" : " of --optimizer " + castor::name(optimizer)) +
                              " takes " + join(names, " and ") + did_you_mean(name, names));
  if (name == "betas") return read_betas(group, value, target);
  std::optional<double>& number = number_of(target, name);
  if (number) return refused(group, name + " is given twice");
  const bool share = name == "momentum";
  if (read_numbers(value, share ? 1 : INFINITY, {&number.emplace()})) return {};
  return refused(group,
                 name + " takes a number " + (share ? "from 0 to below 1" : "of 0 or more") + ", not '" + value + "'");
}

}  // namespace

Result<ParamGroup> read_group(const std::string& text, castor_optimizer optimizer) {
  const std::size_t colon = text.rfind(':');  // a selector may contain further colons, in [[:classes:]]
  const auto values = colon < text.size() ? cli::split(text.substr(colon + 1), ',') : std::vector<std::string>();
  if (colon == 0 || values.empty())
    return cli::wrong("group", text, "SELECTOR:name=value[,name=value], as vectors:weight_decay=0");
  ParamGroup group;
  group.selector = text.substr(0, colon);
  for (const std::string& value : values) CASTOR_TRY(read_value(text, value, optimizer, group));
  return group;
}

Result<void> read_groups(const cli::Values& values, castor_optimizer optimizer, std::vector<ParamGroup>& groups) {
  if (values.count("group") == 0) return {};
  for (const std::string& text : values["group"].as<std::vector<std::string>>()) {
    CASTOR_ASSIGN(ParamGroup group, read_group(text, optimizer));
    groups.push_back(std::move(group));
  }
  return {};
}

}  // namespace castor::train
