// SPDX-License-Identifier: Apache-2.0
#include "step_options.h"

#include <castor/plugins/nearest_name.h>
#include <castor/training/optimizer_families.h>

#include <algorithm>

#include "cli/option_values.h"

namespace castor::train {
namespace {

using Kind = LrScheduleKind;
using cli::read_count;
using cli::read_number;
using cli::Values;
using cli::wrong;

constexpr std::int64_t kMany = 1'000'000'000;

/// An option of schedules, the kinds that use it, and whether they need it.
struct Scope {
  const char* option;
  std::vector<Kind> kinds;
  bool needed = false;
};

std::vector<Scope> scopes() {
  const std::vector<Kind> all_but_onecycle = {Kind::constant,  Kind::linear,     Kind::cosine,
                                              Kind::multistep, Kind::polynomial, Kind::exponential};
  return {
      {"warmup-steps", all_but_onecycle},
      {"decay-steps", {Kind::linear, Kind::cosine, Kind::polynomial, Kind::onecycle}},
      {"min-lr", {Kind::linear, Kind::cosine, Kind::polynomial}},
      {"milestones", {Kind::multistep}, true},
      {"gamma", {Kind::multistep, Kind::exponential}, true},
      {"power", {Kind::polynomial}},
      {"pct-start", {Kind::onecycle}},
      {"div-factor", {Kind::onecycle}},
      {"final-div-factor", {Kind::onecycle}},
  };
}

/// Given by the user, not a default.
bool is_given(const Values& values, const std::string& option) {
  return values.count(option) != 0 && !values[option].defaulted();
}

Result<void> check_scope(const Values& values, const Scope& scope, Kind kind) {
  const bool belongs = std::find(scope.kinds.begin(), scope.kinds.end(), kind) != scope.kinds.end();
  const std::string option = "--" + std::string(scope.option), schedule = "--lr-schedule " + std::string(name(kind));
  if (belongs && scope.needed && !is_given(values, scope.option))
    return Error{ErrorKind::usage, schedule + " needs " + option};
  if (belongs || !is_given(values, scope.option)) return {};
  std::vector<std::string> kinds;
  for (const Kind known : scope.kinds) kinds.emplace_back(name(known));
  return Error{ErrorKind::usage,
               option + " has no effect with " + schedule + "; it belongs to " + join(kinds, " and ")};
}

Result<void> read_kind(const Values& values, Kind& kind) {
  std::vector<std::pair<std::string, Kind>> choices;
  for (const Kind known : kLrScheduleKinds) choices.emplace_back(name(known), known);
  return cli::read_choice<Kind>(values, "lr-schedule", choices, kind);
}

Result<void> read_milestones(const Values& values, std::vector<std::int64_t>& milestones) {
  const std::string text = cli::text_of(values, "milestones").value_or("");
  for (const std::string& part : cli::split(text, ',')) {
    const auto step = cli::number<std::int64_t>(part);
    if (!step) return wrong("milestones", text, "whole numbers separated by commas");
    milestones.push_back(*step);
  }
  return {};
}

Result<void> read_fields(const Values& values, LrScheduleOptions& schedule) {
  CASTOR_TRY(read_number(values, "lr", true, schedule.lr));
  CASTOR_TRY(read_count<std::int64_t>(values, "warmup-steps", 0, kMany, schedule.warmup_steps));
  if (is_given(values, "decay-steps"))
    CASTOR_TRY(read_count<std::int64_t>(values, "decay-steps", 1, kMany, schedule.decay_steps));
  CASTOR_TRY(read_number(values, "min-lr", true, schedule.min_lr));
  CASTOR_TRY(read_milestones(values, schedule.milestones));
  if (is_given(values, "gamma")) CASTOR_TRY(read_number(values, "gamma", false, schedule.gamma));
  CASTOR_TRY(read_number(values, "power", false, schedule.power));
  CASTOR_TRY(read_number(values, "pct-start", true, schedule.pct_start));
  CASTOR_TRY(read_number(values, "div-factor", false, schedule.div_factor));
  return read_number(values, "final-div-factor", false, schedule.final_div_factor);
}

/// Turns the field's name at the start of a message of the library into the option: `min_lr takes` becomes `--min-lr
/// takes`.
template <typename T>
Result<void> by_option(const Result<T>& made) {
  if (made.ok()) return {};
  Error error = made.error();
  std::string& text = error.message;
  std::replace(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(text.find(' '), text.size())), '_',
               '-');
  text = "--" + text;
  return error;
}

}  // namespace

Result<void> read_schedule(const Values& values, std::int64_t steps, LrScheduleOptions& schedule) {
  CASTOR_TRY(read_kind(values, schedule.kind));
  for (const Scope& scope : scopes()) CASTOR_TRY(check_scope(values, scope, schedule.kind));
  schedule.decay_steps = steps;
  CASTOR_TRY(read_fields(values, schedule));
  return by_option(LrSchedule::make(schedule));
}

Result<void> read_momentum(const Values& values, castor_optimizer optimizer, MomentumOptions& options) {
  const auto belongs = [&](const char* option, bool to_this, const char* to) -> Result<void> {
    if (to_this || !is_given(values, option)) return {};
    return Error{ErrorKind::usage, "--" + std::string(option) + " has no effect with --optimizer " + name(optimizer) +
                                       "; it belongs to " + to};
  };
  CASTOR_TRY(belongs("momentum", has_momentum(optimizer), "sgd and lars"));
  CASTOR_TRY(belongs("nesterov", has_momentum(optimizer), "sgd and lars"));
  CASTOR_TRY(belongs("trust-coefficient", has_trust_coefficient(optimizer), "lars"));
  CASTOR_TRY(read_number(values, "momentum", true, options.momentum));
  if (options.momentum >= 1)
    return wrong("momentum", values["momentum"].as<std::string>(), "a number from 0 to below 1");
  CASTOR_TRY(read_number(values, "trust-coefficient", false, options.trust_coefficient));
  options.nesterov = values.count("nesterov") != 0;
  if (!options.nesterov || options.momentum > 0) return {};
  return Error{ErrorKind::usage, "--nesterov needs a --momentum above 0"};
}

Result<void> read_scaler(const Values& values, DType precision, GradScalerOptions& scaler) {
  for (const char* option :
       {"initial-scale", "growth-factor", "backoff-factor", "growth-interval", "hysteresis", "min-scale", "max-scale"})
    if (precision != DType::f16 && is_given(values, option))
      return Error{ErrorKind::usage, "--" + std::string(option) + " has no effect with --precision " +
                                         values["precision"].as<std::string>() + "; only fp16 scales its loss"};
  CASTOR_TRY(read_number(values, "initial-scale", false, scaler.initial_scale));
  CASTOR_TRY(read_number(values, "growth-factor", false, scaler.growth_factor));
  CASTOR_TRY(read_number(values, "backoff-factor", false, scaler.backoff_factor));
  CASTOR_TRY(read_number(values, "min-scale", false, scaler.min_scale));
  CASTOR_TRY(read_number(values, "max-scale", false, scaler.max_scale));
  CASTOR_TRY(read_count<std::int64_t>(values, "growth-interval", 1, kMany, scaler.growth_interval));
  CASTOR_TRY(read_count<std::int64_t>(values, "hysteresis", 1, kMany, scaler.hysteresis));
  return by_option(DynamicGradScaler::make(scaler));
}

}  // namespace castor::train
