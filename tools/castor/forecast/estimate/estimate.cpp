// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>

#include <castor/memory/bytes.h>

#include "cli/commands.h"
#include "options.h"
#include "forecast/plan/step_output.h"

namespace castor::cli {
namespace {

using estimates::ModelFacts;
using estimates::Request;
using nlohmann::json;

/// Of an estimate, on a machine of 2026; the time grows with the number of tensors and no faster.
constexpr double kSecondsPerTensor = 1e-4;

double per_second(const ModelFacts& model, const Forecast& found) {
  return static_cast<double>(model.n_counted) / found.step.step_s;
}

std::string model_line(const Request& request, const ModelFacts& model) {
  const auto n_params = static_cast<double>(model.n_params);
  const bool many = n_params >= 1e9;
  return fmt::format("{}: {:.{}f} {} parameters in {}, batch {}{}{}", request.model.name, n_params / (many ? 1e9 : 1e6),
                     many ? 2 : 1, many ? "B" : "M", name(request.model.precision), request.model.batch,
                     model.reads_text ? fmt::format(" × {} tokens", request.model.seq) : "",
                     request.model.recompute ? ", recomputed per block" : "");
}

std::string layout_line(const Forecast& found) {
  return fmt::format(
      "{} chunks of {} size{}, {} to {}; the states of {} are on the device{}{}", found.n_chunks, found.n_chunk_sizes,
      found.n_chunk_sizes == 1 ? "" : "s", format_bytes(found.smallest_chunk_bytes),
      format_bytes(found.largest_chunk_bytes), found.n_on_device,
      found.n_streamed == 0 ? "" : fmt::format(", those of {} are copied there for each update", found.n_streamed),
      found.n_speculative == 0 ? ""
                               : fmt::format("; {} are updated before the norm is known, with {} more of the host",
                                             found.n_speculative, format_bytes(found.speculation_bytes)));
}

/// The form in which `castor plan` has a step.
StepPlan step_of(const Forecast& found) {
  StepPlan step;
  step.plan.link_seconds = found.planned_link_s, step.plan.bound_seconds = found.link_bound_s;
  step.estimate = found.step;
  step.times = found.room_aside_times;
  return step;
}

std::string to_text(const Request& request, const ModelFacts& model, const Forecast& found) {
  const StepPlan step = step_of(found);
  const std::array limits = {format_bytes(*request.plugin.device_budget), format_bytes(*request.plugin.host_budget),
                             std::string("no limit")};
  return model_line(request, model) + "\n" + layout_line(found) + "\n" +
         fmt::format("activations, logits and gradients on their way: {} of the device\n\n",
                     format_bytes(found.non_model_bytes)) +
         tier_table(found.peak_bytes, "budget", limits) + "\n" + link_table(step) + "\n" + step_line(step) +
         fmt::format("\nupdates take {:.4f} s in all; {:.0f} {}/s", found.update_s, per_second(model, found),
                     model.reads_text ? "tokens" : "samples");
}

json result_of(const Request& request, const ModelFacts& model, const Forecast& found) {
  json object = to_json(step_of(found), found.peak_bytes);
  object["model"] = request.model.name;
  object["params"] = model.n_params;
  object["chunks"] = found.n_chunks;
  object["streamed_chunks"] = found.n_streamed;
  object["speculative_chunks"] = found.n_speculative;
  object["non_model_bytes"] = found.non_model_bytes;
  object["update_s"] = found.update_s;
  object["tokens_per_s"] = per_second(model, found);
  return object;
}

}  // namespace

int run_estimate(const Arguments& arguments, Output& output) {
  const CommandSyntax syntax = estimates::estimate_syntax();
  const Parsed parsed = parse_command(syntax, arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto request = estimates::read_request(parsed.values);
  if (!request) return output.fail(request.error());
  ModelFacts model;
  const auto tell = [&] {
    if (const double seconds = kSecondsPerTensor * static_cast<double>(model.n_tensors); seconds > 2)
      output.note(fmt::format("castor: a step of {} tensors is recorded and played through; about {:.0f} seconds",
                              model.n_tensors, seconds));
  };
  const auto found = estimates::estimate_model(*request, model, tell);
  if (!found && found.error().kind != ErrorKind::does_not_fit) return output.fail(found.error());
  if (!found) return output.fail(found.error(), {{"fits", false}, {"params", model.n_params}});
  output.line(to_text(*request, model, *found));
  output.result(result_of(*request, model, *found));
  return 0;
}

}  // namespace castor::cli
