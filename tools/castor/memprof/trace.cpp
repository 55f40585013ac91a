// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <castor/memory/bytes.h>

namespace castor::memprof {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;

Sample read_sample(const json& row) {
  Sample sample;
  sample.t_ns = row.at(0).get<std::int64_t>();
  for (std::size_t tier = 0; tier < kNTiers; ++tier) sample.bytes[tier] = row.at(tier + 1).get<std::uint64_t>();
  return sample;
}

Span read_span(const json& row) {
  Span span{row.at(0), row.at(1), row.at(2), row.at(3), row.at(4).get<std::uint64_t>()};
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
  return trace;
}

/// nlohmann's messages start with `[json.exception.type_error.302] `, which tells a user nothing.
std::string without_tag(const std::string& text) {
  const auto end = text.find("] ");
  return text.rfind('[', 0) == 0 && end != std::string::npos ? text.substr(end + 2) : text;
}

Error not_a_trace(const std::string& origin, const std::string& why) {
  return {ErrorKind::failed, "'" + origin + "' is not a trace that this version can read: " + why +
                                 "; `castor train --trace F` writes one"};
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& origin) {
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) return not_a_trace(origin, "it is not JSON");
  if (!object.is_object() || !object.contains("castor_trace"))
    return not_a_trace(origin, "it has no field castor_trace");
  if (object["castor_trace"] != kFormatVersion)
    return not_a_trace(origin, "its format is " + object["castor_trace"].dump() + ", not 1");
  try {
    return read_fields(object);
  } catch (const std::exception& e) {
    return not_a_trace(origin, without_tag(e.what()));
  }
}

Result<Trace> read_trace(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || std::filesystem::is_directory(path)) {
    return Error{ErrorKind::io,
                 "cannot read the trace '" + path.string() + "': " + std::strerror(errno != 0 ? errno : EISDIR)};
  }
  return parse_trace(text.str(), path.string());
}

}  // namespace castor::memprof
