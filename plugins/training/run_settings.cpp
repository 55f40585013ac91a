// SPDX-License-Identifier: Apache-2.0
#include <castor/training/run_settings.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include <castor/memory/text.h>
#include <castor/training/optimizer_families.h>

namespace castor {
namespace {

std::string text_of(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> parts;
  for (const std::int64_t number : numbers) parts.push_back(std::to_string(number));
  return join(parts, ",", ",");
}

std::string text_of(const GroupSummary& group) {
  std::string text = group.selector + ": lr " + shortest(group.lr);
  const auto add = [&text](const char* name, double value) {
    text += std::string(", ") + name + ' ' + shortest(value);
  };
  add("weight_decay", group.weight_decay), add("beta1", group.beta1), add("beta2", group.beta2), add("eps", group.eps);
  add("momentum", group.momentum), add("trust_coefficient", group.trust_coefficient);
  return text;
}

/// The fields that apply to the schedule's kind.
RunSettings settings_of(const LrScheduleOptions& schedule) {
  using enum LrScheduleKind;
  RunSettings settings = {{"lr_schedule", name(schedule.kind)}};
  const auto add = [&](std::initializer_list<LrScheduleKind> kinds, const char* field, const std::string& value) {
    if (std::find(kinds.begin(), kinds.end(), schedule.kind) != kinds.end()) settings[field] = value;
  };
  if (schedule.kind != onecycle) settings["warmup_steps"] = std::to_string(schedule.warmup_steps);
  add({linear, cosine, polynomial, onecycle}, "decay_steps", std::to_string(schedule.decay_steps));
  add({linear, cosine, polynomial}, "min_lr", shortest(schedule.min_lr));
  add({multistep}, "milestones", text_of(schedule.milestones));
  add({multistep, exponential}, "gamma", shortest(schedule.gamma));
  add({polynomial}, "power", shortest(schedule.power));
  add({onecycle}, "pct_start", shortest(schedule.pct_start));
  add({onecycle}, "div_factor", shortest(schedule.div_factor));
  add({onecycle}, "final_div_factor", shortest(schedule.final_div_factor));
  return settings;
}

}  // namespace

RunSettings settings_of(const castor_step_args& values, const LrScheduleOptions& schedule,
                        const std::vector<GroupSummary>& groups) {
  RunSettings settings = settings_of(schedule);
  settings.insert({{"optimizer", name(values.optimizer)},
                   {"lr", shortest(values.lr)},
                   {"weight_decay", shortest(values.weight_decay)},
                   {"betas", shortest(values.beta1) + "/" + shortest(values.beta2)},
                   {"eps", shortest(values.eps)},
                   {"momentum", shortest(values.momentum)},
                   {"nesterov", values.nesterov != 0 ? "on" : "off"},
                   {"trust_coefficient", shortest(values.trust_coefficient)},
                   {"max_norm", shortest(values.max_norm)},
                   {"max_value", shortest(values.max_value)}});
  std::vector<std::string> texts;
  for (const GroupSummary& group : groups) texts.push_back(text_of(group));
  if (groups.size() > 1) settings["groups"] = join(texts, "; ", "; ");
  return settings;
}

std::string settings_changed(const std::string& about, const RunSettings& was, const RunSettings& now) {
  std::vector<std::string> changes;
  for (const auto& [setting, value] : now) {
    const auto before = was.find(as_utf8(setting));
    if (before == was.end())
      changes.push_back("`" + setting + "` " + value + " (was not set)");
    else if (before->second != as_utf8(value))
      changes.push_back("`" + setting + "` " + value + " (was " + before->second + ")");
  }
  for (const auto& before : was)
    if (std::none_of(now.begin(), now.end(), [&](const auto& one) { return as_utf8(one.first) == before.first; }))
      changes.push_back("`" + before.first + "` is not set (was " + before.second + ")");
  if (changes.empty()) return "";
  return about + ": the run goes on with other settings than before: " + join(changes, ", ");
}

}  // namespace castor
