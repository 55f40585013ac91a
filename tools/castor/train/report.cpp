// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include <castor/memory/bytes.h>
#include <castor/memory/statistics.h>
#include <castor/training/optimizer_families.h>

namespace castor::train {
namespace {

using nlohmann::json;

std::vector<double> counted(const std::vector<double>& step_s) {
  return {step_s.begin() + n_left_out(static_cast<std::int64_t>(step_s.size())), step_s.end()};
}

double n_counted(const TrainRecord& record) { return static_cast<double>(counted(record.step_s).size()); }

double tokens_per_second(const TrainRecord& record) {
  const double seconds = step_times(record.step_s).mean;
  return seconds > 0 ? static_cast<double>(record.tokens_per_step) / seconds : 0;
}

/// Seconds per counted step in which the training thread neither waited nor updated.
double compute_seconds(const TrainRecord& record, double median) {
  const RunStats &warm = record.warm, &last = record.last;
  const double other = (last.wait_seconds - warm.wait_seconds) + (last.update_seconds - warm.update_seconds);
  return std::max(0.0, median - other / n_counted(record));
}

std::string bytes_text(double n_bytes) { return format_bytes(static_cast<std::uint64_t>(std::llround(n_bytes))); }

std::string tier_line(const RunStats& counters, Tier tier) {
  const auto& budget = counters.budget_bytes[index(tier)];
  return fmt::format("  {:<12} {:<12} {}\n", name(tier), format_bytes(counters.peak_bytes[index(tier)]),
                     budget ? format_bytes(*budget) : "no limit");
}

/// The links that carried bytes.
std::string moved_text(const TrainRecord& record, const Rates& rates) {
  std::string text;
  const auto moved = moved_bytes_per_step(record);
  for (const Link link : kLinks) {
    const auto& rate = rates[index(link)];
    if (moved[index(link)] == 0) continue;
    text += fmt::format("  {:<12} {:<12} {}\n", name(link), bytes_text(moved[index(link)]),
                        rate ? fmt::format("{:.1f} GB/s", *rate * 1e-9) : "not measured");
  }
  return text.empty() ? "\n  nothing was moved between tiers\n"
                      : "\n  moved        per step     the link's rate\n" + text;
}

/// The wear of the drives.
std::string wear_text(const TrainRecord& record) {
  const auto wear = wear_of(record);
  if (!wear) return "";
  std::string text = fmt::format("  written to NVMe in a day of such steps: {}", bytes_text(wear->bytes_per_day));
  if (wear->drive_writes_per_day)
    text += fmt::format(", {:.2g} times the {} of its drives", *wear->drive_writes_per_day,
                        format_bytes(record.drive_bytes));
  return text + "\n";
}

json group_json(const GroupSummary& group) {
  json found = {{"selector", group.selector},
                {"tensors", group.n_tensors},
                {"params", group.n_params},
                {"lr", group.lr},
                {"weight_decay", group.weight_decay}};
  const bool trusts = has_trust_coefficient(group.optimizer), momentum = has_momentum(group.optimizer);
  if (momentum) found["momentum"] = group.momentum;
  if (trusts) found["trust_coefficient"] = group.trust_coefficient;
  if (!momentum) found["betas"] = {group.beta1, group.beta2};
  if (!momentum || trusts) found["eps"] = group.eps;
  return found;
}

json steps_json(const std::vector<double>& step_s) {
  const StepTimes times = step_times(step_s);
  return {{"median", times.median},
          {"min", times.min},
          {"max", times.max},
          {"n_left_out", times.n_left_out},
          {"each", step_s}};
}

json groups_json(const std::vector<GroupSummary>& groups) {
  json found = json::array();
  for (const GroupSummary& group : groups) found.push_back(group_json(group));
  return found;
}

}  // namespace

void Saves::add(const SavedBytes& saved, const RunStats& before, const RunStats& after) {
  ++n;
  bytes.written_bytes += saved.written_bytes;
  bytes.referenced_bytes += saved.referenced_bytes;
  for (const Link link : kLinks)
    moved_bytes[index(link)] += after.moved_bytes[index(link)] - before.moved_bytes[index(link)];
  wait_seconds += after.wait_seconds - before.wait_seconds;
}

RunStats Saves::left_of(RunStats counters) const {
  for (const Link link : kLinks) counters.moved_bytes[index(link)] -= moved_bytes[index(link)];
  counters.wait_seconds -= wait_seconds;
  return counters;
}

void TrainRecord::note(const RunStats& now) {
  const Bound known = now.bound.seconds > 0 ? now.bound : last.bound;
  last = saves.left_of(now);
  last.bound = known;
}

StepTimes step_times(const std::vector<double>& step_s) {
  std::vector<double> times = counted(step_s);
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(n);
  return {median(times), times.front(), times.back(), mean, static_cast<std::int64_t>(step_s.size() - n)};
}

std::array<double, kNLinks> moved_bytes_per_step(const TrainRecord& record) {
  std::array<double, kNLinks> moved{};
  for (const Link link : kLinks) {
    const double n_bytes =
        static_cast<double>(record.last.moved_bytes[index(link)] - record.warm.moved_bytes[index(link)]);
    moved[index(link)] = record.step_s.empty() ? 0 : n_bytes / n_counted(record);
  }
  return moved;
}

Bound bound_of(const TrainRecord& record, const Rates& rates) {
  const double median = step_times(record.step_s).median;
  if (median <= 0) return {};
  if (const Bound& known = record.last.bound; known.seconds > 0)
    return {known.seconds, known.by, known.seconds / median};
  Bound bound{compute_seconds(record, median), "compute", 0};
  const auto moved = moved_bytes_per_step(record);
  for (const Link link : kLinks) {
    const double seconds = rates[index(link)] ? moved[index(link)] / *rates[index(link)] : 0;
    if (seconds > bound.seconds) bound.seconds = seconds, bound.by = name(link);
  }
  bound.share = bound.seconds / median;
  return bound;
}

std::optional<Wear> wear_of(const TrainRecord& record) {
  constexpr double kSecondsPerDay = 86400;
  const double n_saved_bytes = record.step_s.empty()
                                   ? 0
                                   : static_cast<double>(record.saves.moved_bytes[index(Link::nvme_write)]) /
                                         static_cast<double>(record.step_s.size());
  const double n_bytes = moved_bytes_per_step(record)[index(Link::nvme_write)] + n_saved_bytes;
  const double seconds = step_times(record.step_s).mean;
  if (n_bytes == 0 || seconds <= 0) return {};
  Wear wear{n_bytes / seconds * kSecondsPerDay, {}};
  if (record.drive_bytes > 0) wear.drive_writes_per_day = wear.bytes_per_day / static_cast<double>(record.drive_bytes);
  return wear;
}

double nine_digits(double value) {
  return std::isfinite(value) ? std::strtod(fmt::format("{:.9g}", value).c_str(), nullptr) : value;
}

json numbers_json(const std::vector<double>& of_steps) {
  json numbers = json::array();
  for (const double number : of_steps) numbers.push_back(nine_digits(number));
  return numbers;
}

json wear_json(const TrainRecord& record) {
  const auto wear = wear_of(record);
  if (!wear) return {};
  return {{"bytes_per_day", std::round(wear->bytes_per_day)},
          {"drive_writes_per_day", wear->drive_writes_per_day ? json(*wear->drive_writes_per_day) : json()}};
}

json saves_json(const Saves& saves) {
  return {{"count", saves.n},
          {"written_bytes", saves.bytes.written_bytes},
          {"referenced_bytes", saves.bytes.referenced_bytes}};
}

json report_json(const TrainRecord& record, const Rates& rates) {
  const Bound bound = bound_of(record, rates);
  json peak, budget, moved, links = json::object();
  for (const Tier tier : kTiers) {
    peak[name(tier)] = record.last.peak_bytes[index(tier)];
    const auto& limit = record.last.budget_bytes[index(tier)];
    budget[name(tier)] = limit ? json(*limit) : json();
  }
  for (const Link link : kLinks) {
    moved[name(link)] = static_cast<std::uint64_t>(std::llround(moved_bytes_per_step(record)[index(link)]));
    if (rates[index(link)]) links[name(link)] = std::round(*rates[index(link)]);
  }
  return {{"params", record.n_params},
          {"groups", groups_json(record.groups)},
          {"losses", numbers_json(record.losses)},
          {"grad_norms", numbers_json(record.grad_norms)},
          {"lr", record.lrs},
          {"step_s", steps_json(record.step_s)},
          {"tokens_per_s", tokens_per_second(record)},
          {"first_step", record.first_step},
          {"clipped_steps", record.n_clipped},
          {"skipped_steps", record.n_skipped},
          {"peak_bytes", peak},
          {"peak_rss_bytes", record.peak_rss_bytes},
          {"budget_bytes", budget},
          {"moved_bytes_per_step", moved},
          {"link_bytes_per_s", links},
          {"wear", wear_json(record)},
          {"saves", saves_json(record.saves)},
          {"bound", {{"seconds", bound.seconds}, {"by", bound.by}, {"share", bound.share}}},
          {"weights_digest", record.weights_digest}};
}

std::string report_text(const TrainRecord& record, const Rates& rates) {
  const StepTimes times = step_times(record.step_s);
  const Bound bound = bound_of(record, rates);
  std::string text =
      fmt::format("{} steps of {} parameters: loss {:.4f} to {:.4f}, {:.0f} tokens/s\n", record.losses.size(),
                  record.n_params, record.losses.front(), record.losses.back(), tokens_per_second(record));
  text += fmt::format("step {:.4f} s (median; {:.4f} to {:.4f}, {} left out as warm-up)\n", times.median, times.min,
                      times.max, times.n_left_out);
  text += fmt::format("bound {:.4f} s by {}: {:.0f} % of the step\n", bound.seconds, bound.by, 100 * bound.share);
  if (record.n_clipped > 0) text += fmt::format("{} steps were clipped\n", record.n_clipped);
  if (record.n_skipped > 0)
    text += fmt::format("{} steps were skipped, their gradients held inf or nan\n", record.n_skipped);
  text += "\n  tier         peak         budget\n";
  for (const Tier tier : kTiers) text += tier_line(record.last, tier);
  text += fmt::format("  {:<12} {}\n", "process", format_bytes(record.peak_rss_bytes));
  return text + moved_text(record, rates) + wear_text(record) + "\nweights " + record.weights_digest;
}

}  // namespace castor::train
