// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include <castor/memory/bytes.h>

#include "cli/commands.h"
#include "options.h"
#include "forecast/plan/step_output.h"

namespace castor::cli {
namespace {

using estimate::Forecast;
using estimate::Request;
using nlohmann::json;

/// The unit of throughput: tokens, or the samples of a model that reads images.
std::uint64_t n_counted(const Request& request) {
  return request.model.image_tokens > 0 ? request.work.batch : n_tokens(request.model, request.work);
}

double per_second(const Request& request, const Forecast& found) {
  return static_cast<double>(n_counted(request)) / found.step.estimate.step_s;
}

/// Bytes of chunks, on the device with non-model data, and on the host with the new states and weights of speculative
/// updates.
TierBytes peak_of_all(const Forecast& found) {
  TierBytes peak = peak_bytes(found.problem, found.step.plan);
  peak[index(Tier::device)] += found.non_model.total_bytes();
  peak[index(Tier::host)] += found.placement.speculation_bytes;
  return peak;
}

std::ptrdiff_t count(const IndexedVector<PayloadId, bool>& chunks) {
  return std::count(chunks.begin(), chunks.end(), true);
}

std::string model_line(const Request& request) {
  const auto n_params = static_cast<double>(request.model.n_params());
  const bool many = n_params >= 1e9;
  return fmt::format("{}: {:.{}f} {} parameters in {}, batch {}{}{}", request.model.name, n_params / (many ? 1e9 : 1e6),
                     many ? 2 : 1, many ? "B" : "M", name(request.work.precision), request.work.batch,
                     request.model.image_tokens > 0 ? "" : fmt::format(" × {} tokens", request.work.seq),
                     request.work.recompute ? ", recomputed per block" : "");
}

std::string layout_line(const Forecast& found) {
  std::set<std::uint64_t> sizes;
  for (const ChunkShape& chunk : found.layout.chunks) sizes.insert(chunk.numel * size_bytes(chunk.dtype));
  const auto on_device = std::count(found.placement.states.begin(), found.placement.states.end(), Tier::device);
  const auto n_streamed = count(found.placement.streamed), n_speculative = count(found.placement.speculative);
  return fmt::format(
      "{} chunks of {} size{}, {} to {}; the states of {} are on the device{}{}", found.layout.chunks.size(),
      sizes.size(), sizes.size() == 1 ? "" : "s", format_bytes(*sizes.begin()), format_bytes(*sizes.rbegin()),
      on_device, n_streamed == 0 ? "" : fmt::format(", those of {} are copied there for each update", n_streamed),
      n_speculative == 0 ? ""
                         : fmt::format("; {} are updated before the norm is known, with {} more of the host",
                                       n_speculative, format_bytes(found.placement.speculation_bytes)));
}

std::string to_text(const Request& request, const Forecast& found) {
  return model_line(request) + "\n" + layout_line(found) + "\n" +
         fmt::format("activations, logits and gradients on their way: {} of the device\n\n",
                     format_bytes(found.non_model.total_bytes())) +
         tier_table(peak_of_all(found), "budget",
                    {format_bytes(request.device_budget_bytes), format_bytes(request.host_budget_bytes), "no limit"}) +
         "\n" + link_table(found.step) + "\n" + step_line(found.step) +
         fmt::format("\nupdates take {:.4f} s in all; {:.0f} {}/s", found.update_s, per_second(request, found),
                     request.model.image_tokens > 0 ? "samples" : "tokens");
}

json result_of(const Request& request, const Forecast& found) {
  json object = to_json(found.step, peak_of_all(found));
  object["model"] = request.model.name;
  object["params"] = request.model.n_params();
  object["chunks"] = found.layout.chunks.size();
  object["streamed_chunks"] = count(found.placement.streamed);
  object["speculative_chunks"] = count(found.placement.speculative);
  object["non_model_bytes"] = found.non_model.total_bytes();
  object["update_s"] = found.update_s;
  object["tokens_per_s"] = per_second(request, found);
  return object;
}

}  // namespace

int run_estimate(const Arguments& arguments, Output& output) {
  const CommandSyntax syntax = estimate::estimate_syntax();
  const Parsed parsed = parse_command(syntax, arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto request = estimate::read_request(parsed.values);
  if (!request) return output.fail(request.error());
  const auto found = estimate::forecast(*request);
  if (!found && found.error().kind != ErrorKind::does_not_fit) return output.fail(found.error());
  if (!found) return output.fail(found.error(), {{"fits", false}, {"params", request->model.n_params()}});
  output.line(to_text(*request, *found));
  output.result(result_of(*request, *found));
  return 0;
}

}  // namespace castor::cli
