// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include <castor/memory/budget.h>
#include <castor/memory/bytes.h>

#include "commands.h"
#include "plan/recording.h"

namespace castor::cli {
namespace {

using nlohmann::json;
namespace po = boost::program_options;

/// `nvme-read-rate` for `nvme_read`.
std::string rate_option(std::string link) {
  std::replace(link.begin(), link.end(), '_', '-');
  return link + "-rate";
}

CommandSyntax plan_syntax() {
  CommandSyntax syntax(
      "castor plan --trace FILE [options]",
      "Plans the iteration that a trace file holds (`castor train --plugin gemini --trace F`): how much of\n"
      "each tier it takes, what goes over the links, how long a step takes and what binds it.\n"
      "Nothing is allocated and nothing moves. docs/planning.md has the arithmetic.");
  auto add = syntax.options.add_options();
  add("trace", po::value<std::string>()->value_name("FILE"), "the recording");
  add("device-budget", po::value<std::string>()->value_name("SIZE"),
      "what chunks may take of the device (default: as recorded; on a GPU the budget less activations)");
  add("host-budget", po::value<std::string>()->value_name("SIZE"),
      "what they may take of the host (default: as recorded)");
  add("nvme", po::value<std::string>()->value_name("on|off"), "whether there is a tier below (default: as recorded)");
  for (const char* link : kLinkNames)
    add(rate_option(link).c_str(), po::value<std::string>()->value_name("SIZE"),
        "bytes per second (default: as recorded)");
  return syntax;
}

Result<void> set_room(const Values& values, MoveProblem& problem) {
  for (const Tier tier : {Tier::device, Tier::host}) {
    CASTOR_ASSIGN(const auto limit, bytes_of(values, std::string(name(tier)) + "-budget"));
    if (limit) problem.room_bytes[index(tier)].assign(problem.n_moments, *limit);
  }
  if (const auto nvme = text_of(values, "nvme")) {
    if (*nvme != "on" && *nvme != "off") return wrong("nvme", *nvme, "on or off");
    problem.nvme = *nvme == "on";
  }
  return {};
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

std::array<std::uint64_t, 4> moved_of(const StepPlan& step) {
  const LinkBytes& moved = step.estimate.moved;
  return {moved.h2d, moved.d2h, moved.nvme_read, moved.nvme_write};
}

json to_json(const StepPlan& step) {
  json moved;
  for (std::size_t link = 0; link < kLinkNames.size(); ++link) moved[kLinkNames[link]] = moved_of(step)[link];
  const StepEstimate& estimate = step.estimate;
  const double share = estimate.step_s > 0 ? estimate.bound_s / estimate.step_s : 1;
  return {{"fits", true},
          {"peak_bytes", {{"device", step.plan.peak_bytes[0]}, {"host", step.plan.peak_bytes[1]}}},
          {"moved_bytes_per_step", moved},
          {"link_s", step.plan.link_seconds},
          {"link_lower_bound_s", step.plan.bound_seconds},
          {"step_s", estimate.step_s},
          {"compute_s", estimate.compute_s},
          {"wait_s", estimate.wait_s},
          {"bound", {{"seconds", estimate.bound_s}, {"by", estimate.bound_by}, {"share", share}}},
          {"moments_ahead", step.n_ahead}};
}

std::string room_text(const MoveProblem& problem, Tier tier) {
  const auto& room = problem.room_bytes[index(tier)];
  const auto least = *std::min_element(room.begin(), room.end());
  return least == Budget::kUnlimited ? "no limit" : format_bytes(least);
}

std::string to_text(const plan::Recording& recording, const StepPlan& step) {
  const StepEstimate& estimate = step.estimate;
  std::string text =
      fmt::format("{} moments, {} chunks{}\n\n  tier    peak         room\n", recording.problem.n_moments,
                  recording.problem.chunks.size(), recording.model.empty() ? "" : ", recorded of " + recording.model);
  for (const Tier tier : {Tier::device, Tier::host})
    text += fmt::format("  {:<7} {:<12} {}\n", name(tier), format_bytes(step.plan.peak_bytes[index(tier)]),
                        room_text(recording.problem, tier));
  text += "\n  link        per step     busy\n";
  for (std::size_t link = 0; link < kLinkNames.size(); ++link)
    if (moved_of(step)[link] > 0)
      text += fmt::format("  {:<11} {:<12} {:.4f} s\n", kLinkNames[link], format_bytes(moved_of(step)[link]),
                          estimate.link_s[link]);
  const double above = step.plan.bound_seconds > 0 ? step.plan.link_seconds / step.plan.bound_seconds - 1 : 0;
  text += fmt::format("\nno plan moves {:.1f} % less than this one\n", 100 * above);
  return text + fmt::format("step {:.4f} s: computing {:.4f} s, waiting {:.4f} s; bound by {} ({:.4f} s)",
                            estimate.step_s, estimate.compute_s, estimate.wait_s, estimate.bound_by, estimate.bound_s);
}

}  // namespace

int run_plan(const Arguments& arguments, Output& output) {
  const CommandSyntax syntax = plan_syntax();
  const Parsed parsed = parse_command(syntax, arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto path = text_of(parsed.values, "trace");
  if (!path) return output.fail({ErrorKind::usage, "which trace? usage: " + syntax.usage});
  auto recording = plan::read_recording(*path);
  if (!recording) return output.fail(recording.error());
  MoveProblem& problem = recording->problem;
  if (const auto set = set_room(parsed.values, problem); !set) return output.fail(set.error());
  if (const auto set = set_rates(parsed.values, problem.costs); !set) return output.fail(set.error());
  const auto step = plan_step(problem, recording->compute_s);
  if (!step) return output.fail(step.error(), {{"fits", false}});
  output.line(to_text(*recording, *step));
  output.result(to_json(*step));
  return 0;
}

}  // namespace castor::cli
