// SPDX-License-Identifier: Apache-2.0
#include "step_output.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include <castor/memory/bytes.h>

namespace castor::cli {
namespace {

using nlohmann::json;
namespace po = boost::program_options;

/// `nvme-read-rate` for `nvme_read`.
std::string rate_option(std::string link) {
  std::replace(link.begin(), link.end(), '_', '-');
  return link + "-rate";
}

std::array<std::uint64_t, kLinkNames.size()> moved_of(const StepPlan& step) {
  const LinkBytes& moved = step.estimate.moved;
  return {moved.h2d, moved.d2h, moved.nvme_read, moved.nvme_write};
}

bool ever_on_nvme(const std::vector<Stay>& stays) {
  return std::any_of(stays.begin(), stays.end(),
                     [](const Stay& stay) { return holds(stay.at_use | stay.after | stay.before_next, Tier::nvme); });
}

}  // namespace

void add_rate_options(CommandSyntax& syntax, const std::array<RateOption, kLinkNames.size()>& options) {
  auto add = syntax.options.add_options();
  for (std::size_t link = 0; link < kLinkNames.size(); ++link) {
    auto* value = po::value<std::string>()->value_name("SIZE");
    if (options[link].default_rate != nullptr) value->default_value(options[link].default_rate);
    add(rate_option(kLinkNames[link]).c_str(), value, options[link].help);
  }
}

Result<void> set_rates(const Values& values, LinkCosts& costs) {
  double* const cost[] = {&costs.h2d, &costs.d2h, &costs.nvme_read, &costs.nvme_write};
  for (std::size_t link = 0; link < kLinkNames.size(); ++link) {
    const std::string option = rate_option(kLinkNames[link]);
    CASTOR_ASSIGN(const auto rate, bytes_of(values, option));
    if (rate && *rate == 0) return wrong(option, "0", "bytes per second above 0");
    if (rate) *cost[link] = 1 / static_cast<double>(*rate);
  }
  return {};
}

Result<std::optional<bool>> nvme_of(const Values& values) {
  const auto text = text_of(values, "nvme");
  if (!text) return std::optional<bool>();
  if (*text != "on" && *text != "off") return wrong("nvme", *text, "on or off");
  return std::optional(*text == "on");
}

TierBytes peak_bytes(const MoveProblem& problem, const MovePlan& plan) {
  TierBytes peak = {plan.peak_bytes(Tier::device), plan.peak_bytes(Tier::host), 0};
  for (const ChunkId id : problem.chunks.ids())
    if (ever_on_nvme(plan.stays[id])) peak[index(Tier::nvme)] += problem.chunks[id].n_bytes;
  return peak;
}

json to_json(const StepPlan& step, const TierBytes& peak_bytes) {
  json moved, peak;
  for (std::size_t link = 0; link < kLinkNames.size(); ++link) moved[kLinkNames[link]] = moved_of(step)[link];
  for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) peak[name(tier)] = peak_bytes[index(tier)];
  const StepEstimate& estimate = step.estimate;
  const double share = estimate.step_s > 0 ? estimate.bound_s / estimate.step_s : 1;
  return {{"fits", true},
          {"peak_bytes", peak},
          {"moved_bytes_per_step", moved},
          {"link_s", step.plan.link_seconds},
          {"link_lower_bound_s", step.plan.bound_seconds},
          {"step_s", estimate.step_s},
          {"compute_s", estimate.compute_s},
          {"wait_s", estimate.wait_s},
          {"update_beside_s", estimate.beside_s},
          {"bound", {{"seconds", estimate.bound_s}, {"by", estimate.bound_by}, {"share", share}}},
          {"room_aside_times", step.times}};
}

std::string tier_table(const TierBytes& peak_bytes, const std::string& limit_title,
                       const std::array<std::string, kNTiers>& limits) {
  std::string text = "  tier    peak         " + limit_title + "\n";
  for (const Tier tier : {Tier::device, Tier::host, Tier::nvme})
    if (tier != Tier::nvme || peak_bytes[index(tier)] > 0)
      text +=
          fmt::format("  {:<7} {:<12} {}\n", name(tier), format_bytes(peak_bytes[index(tier)]), limits[index(tier)]);
  return text;
}

std::string link_table(const StepPlan& step) {
  std::string text;
  for (std::size_t link = 0; link < kLinkNames.size(); ++link)
    if (moved_of(step)[link] > 0)
      text += fmt::format("  {:<11} {:<12} {:.4f} s\n", kLinkNames[link], format_bytes(moved_of(step)[link]),
                          step.estimate.link_s[link]);
  return text.empty() ? "  no byte moves over the links\n" : "  link        per step     busy\n" + text;
}

std::string step_line(const StepPlan& step) {
  const StepEstimate& estimate = step.estimate;
  const std::string beside =
      estimate.beside_s > 0 ? fmt::format(", updates beside it {:.4f} s", estimate.beside_s) : "";
  return fmt::format("step {:.4f} s: computing {:.4f} s, waiting {:.4f} s{}; bound by {} ({:.4f} s)", estimate.step_s,
                     estimate.compute_s, estimate.wait_s, beside, estimate.bound_by, estimate.bound_s);
}

}  // namespace castor::cli
