// SPDX-License-Identifier: Apache-2.0
#include "train/group_option.h"

#include <algorithm>
#include <cmath>

#include <castor/plugins/nearest_name.h>

namespace castor::train {
namespace {

const std::vector<std::string> kNames = {"lr", "betas", "eps", "weight_decay"};

Error refused(const std::string& group, const std::string& why) {
  return {ErrorKind::usage, "--group " + group + ": " + why};
}

/// Numbers from 0 to below `end`, separated by slashes, as many as there are targets.
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

Result<void> read_betas(const std::string& group, const std::string& text, GroupOption& target) {
  if (target.betas) return refused(group, "betas is given twice");
  auto& [beta1, beta2] = target.betas.emplace();
  if (read_numbers(text, 1, {&beta1, &beta2})) return {};
  return refused(group, "betas takes two numbers from 0 to below 1, as 0.9/0.95, not '" + text + "'");
}

/// `name=value` of a group.
Result<void> read_value(const std::string& group, const std::string& text, GroupOption& target) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals), value = text.substr(std::min(equals + 1, text.size()));
  if (name == "betas") return read_betas(group, value, target);
  auto* const number = name == "lr"             ? &target.lr
                       : name == "eps"          ? &target.eps
                       : name == "weight_decay" ? &target.weight_decay
                                                : nullptr;
  if (!number)
    return refused(group,
                   "there is no '" + name + "'; a group takes " + join(kNames, " and ") + did_you_mean(name, kNames));
  if (*number) return refused(group, name + " is given twice");
  if (read_numbers(value, INFINITY, {&number->emplace()})) return {};
  return refused(group, name + " takes a number of 0 or more, not '" + value + "'");
}

}  // namespace

Result<GroupOption> read_group(const std::string& text) {
  const std::size_t colon = text.rfind(':');  // there may be more of them in [[:classes:]]
  const auto values = colon < text.size() ? cli::split(text.substr(colon + 1), ',') : std::vector<std::string>();
  if (colon == 0 || values.empty())
    return cli::wrong("group", text, "SELECTOR:name=value[,name=value], as vectors:weight_decay=0");
  GroupOption group;
  group.selector = text.substr(0, colon);
  for (const std::string& value : values) CASTOR_TRY(read_value(text, value, group));
  return group;
}

Result<void> read_groups(const cli::Values& values, std::vector<GroupOption>& groups) {
  if (values.count("group") == 0) return {};
  for (const std::string& text : values["group"].as<std::vector<std::string>>()) {
    CASTOR_ASSIGN(GroupOption group, read_group(text));
    groups.push_back(std::move(group));
  }
  return {};
}

}  // namespace castor::train
