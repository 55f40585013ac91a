// SPDX-License-Identifier: Apache-2.0
#include <castor/memprof/trace.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include <castor/memory/bytes.h>
#include <castor/memprof/trace_file.h>

namespace castor::memprof {
namespace {

using nlohmann::json;

Sample read_sample(const json& row) {
  Sample sample;
  sample.t_ns = row.at(0).get<std::int64_t>();
  for (std::size_t tier = 0; tier < kNTiers; ++tier) sample.bytes[tier] = row.at(tier + 1).get<std::uint64_t>();
  return sample;
}

Span read_span(const json& row) {
  Span span{row.at(0), row.at(1), row.at(2), row.at(3), row.at(4).get<std::uint64_t>(), ""};
  if (row.size() > 5) span.phase = row.at(5);
  if (span.end_ns < span.start_ns) throw std::runtime_error("a span on lane '" + span.lane + "' ends before it starts");
  return span;
}

std::string describe_chunk(const json& chunk) {
  std::string text;
  for (const char* field : {chunk.contains("label") ? "label" : "kind", "dtype"})
    text += chunk.contains(field) ? chunk[field].get<std::string>() + " " : "";
  return text + format_bytes(chunk.at("bytes").get<std::uint64_t>());
}

void read_budgets(const json& object, Trace& trace) {
  for (const Tier tier : kTiers) {
    const json value = object.value(name(tier), json());
    if (!value.is_null()) trace.budget_bytes[index(tier)] = value.get<std::uint64_t>();
  }
}

Trace read_fields(const json& object) {
  Trace trace;
  trace.model = object.value("model", "");
  trace.units = object.value("units", std::vector<std::string>());
  for (const json& chunk : object.value("chunks", json::array())) trace.chunks[chunk.at("id")] = describe_chunk(chunk);
  read_budgets(object.value("budget_bytes", json::object()), trace);
  for (const json& row : object.at("samples")) trace.samples.push_back(read_sample(row));
  for (const json& row : object.at("spans")) trace.spans.push_back(read_span(row));
  trace.totals = object.value("totals", std::map<std::string, double>());
  const auto earlier = [](const Sample& a, const Sample& b) { return a.t_ns < b.t_ns; };
  if (!std::is_sorted(trace.samples.begin(), trace.samples.end(), earlier))
    throw std::runtime_error("the samples are not in order of time");
  trace.step_ends_ns = object.value("step_ends_ns", std::vector<std::int64_t>());
  if (!std::is_sorted(trace.step_ends_ns.begin(), trace.step_ends_ns.end()))
    throw std::runtime_error("step_ends_ns is not in order of time");
  return trace;
}

}  // namespace

std::string unit_name(const Trace& trace, std::int64_t id) {
  if (id < 0) return "outside units";
  const auto position = static_cast<std::size_t>(id);
  return position < trace.units.size() ? trace.units[position] : "unit " + std::to_string(id);
}

std::string chunk_name(const Trace& trace, std::int64_t id) {
  if (id < 0) return "no chunk";
  const auto chunk = trace.chunks.find(id);
  return "chunk " + std::to_string(id) + (chunk == trace.chunks.end() ? "" : " (" + chunk->second + ")");
}

std::string owner_name(const Trace& trace, const Span& span) {
  const bool of_unit = span.lane == "wait" || (span.lane == "compute" && span.phase != "update");
  return of_unit ? unit_name(trace, span.id) : chunk_name(trace, span.id);
}

Result<Trace> parse_trace(std::string_view text, const std::string& origin) {
  Trace trace;
  CASTOR_TRY(parse_trace_file(text, origin, [&trace](const json& object) { trace = read_fields(object); }));
  return trace;
}

Result<Trace> read_trace(const std::filesystem::path& path) {
  CASTOR_ASSIGN(const std::string text, read_trace_file(path));
  return parse_trace(text, path.string());
}

}  // namespace castor::memprof
