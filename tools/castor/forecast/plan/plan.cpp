// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include <castor/memory/budget.h>
#include <castor/memory/bytes.h>
#include <castor/memprof/recording.h>

#include "cli/commands.h"
#include "step_output.h"

namespace castor::cli {
namespace {

namespace po = boost::program_options;

CommandSyntax plan_syntax() {
  CommandSyntax syntax(
      "castor plan --trace FILE [options]",
      "Plans the iteration that a trace file holds (`castor train --plugin gemini --trace F`): how much of\n"
      "each tier it takes, the bytes over each link, how long a step takes and which resource limits it.\n"
      "Nothing is allocated and nothing moves. docs/planning.md has the arithmetic.");
  auto add = syntax.options.add_options();
  add("trace", po::value<std::string>()->value_name("FILE"), "the recording");
  add("device-budget", po::value<std::string>()->value_name("SIZE"),
      "bytes the device may hold, activations included on a GPU (default: as recorded)");
  add("host-budget", po::value<std::string>()->value_name("SIZE"),
      "bytes of host memory that chunks may hold (default: as recorded)");
  add("nvme", po::value<std::string>()->value_name("on|off"), "whether there is an NVMe tier (default: as recorded)");
  std::array<RateOption, kLinkNames.size()> rates;
  rates.fill({nullptr, "bytes per second (default: as recorded)"});
  add_rate_options(syntax, rates);
  return syntax;
}

Result<void> set_room(const Values& values, memprof::Recording& recording) {
  MoveProblem& problem = recording.problem;
  for (const Tier tier : {Tier::device, Tier::host}) {
    CASTOR_ASSIGN(const auto limit, bytes_of(values, std::string(name(tier)) + "-budget"));
    const std::uint64_t other_bytes = tier == Tier::device ? recording.taken_bytes : 0;
    if (limit && *limit < other_bytes)
      return Error{ErrorKind::does_not_fit, "device tier: activations and workspaces take " +
                                                format_bytes_up(other_bytes) + ", the budget is " +
                                                format_bytes(*limit) + "; raise --device-budget"};
    if (limit) problem.room_bytes[index(tier)].assign(problem.n_moments, *limit - other_bytes);
  }
  CASTOR_ASSIGN(const auto nvme, nvme_of(values));
  problem.nvme = nvme.value_or(problem.nvme);
  return {};
}

std::string room_text(const MoveProblem& problem, Tier tier, std::uint64_t other_bytes) {
  const auto& room = problem.room_bytes[index(tier)];
  const auto least = *std::min_element(room.begin(), room.end());
  return least == Budget::kUnlimited ? "no limit" : format_bytes(least + other_bytes);
}

std::string to_text(const memprof::Recording& recording, const StepPlan& step, const TierBytes& peak) {
  const MoveProblem& problem = recording.problem;
  const double above = step.plan.bound_seconds > 0 ? step.plan.link_seconds / step.plan.bound_seconds - 1 : 0;
  return fmt::format("{} moments, {} chunks{}\n\n", problem.n_moments, problem.chunks.size(),
                     recording.model.empty() ? "" : ", recorded of " + recording.model) +
         tier_table(
             peak, "budget",
             {room_text(problem, Tier::device, recording.taken_bytes), room_text(problem, Tier::host, 0), "no limit"}) +
         "\n" + link_table(step) + fmt::format("\nno plan moves {:.1f} % less than this one\n", 100 * above) +
         step_line(step);
}

}  // namespace

int run_plan(const Arguments& arguments, Output& output) {
  const CommandSyntax syntax = plan_syntax();
  const Parsed parsed = parse_command(syntax, arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto path = text_of(parsed.values, "trace");
  if (!path) return output.fail({ErrorKind::usage, "which trace? usage: " + syntax.usage});
  auto recording = memprof::read_recording(*path);
  if (!recording) return output.fail(recording.error());
  MoveProblem& problem = recording->problem;
  if (const auto set = set_room(parsed.values, *recording); !set) return output.fail(set.error(), {{"fits", false}});
  if (const auto set = set_rates(parsed.values, problem.costs); !set) return output.fail(set.error());
  const auto step = plan_step(problem, recording->seconds);
  if (!step) return output.fail(step.error(), {{"fits", false}});
  TierBytes peak = peak_bytes(problem, step->plan);
  peak[index(Tier::device)] = memprof::device_peak_bytes(*recording, step->plan);
  output.line(to_text(*recording, *step, peak));
  output.result(to_json(*step, peak));
  return 0;
}

}  // namespace castor::cli
