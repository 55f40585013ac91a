// SPDX-License-Identifier: Apache-2.0
#include "trace_writer.h"

#include <cmath>
#include <map>

#include <castor/io/whole_file.h>
#include <nlohmann/json.hpp>

namespace castor {
namespace {

using Json = nlohmann::json;

/// The bytes, or null for no limit.
Json limit(std::uint64_t n_bytes) { return n_bytes == Budget::kUnlimited ? Json() : Json(n_bytes); }

/// The numbers of the units that use each payload chunk.
std::map<ChunkId, std::vector<std::uint32_t>> users(const EngineRooms& source) {
  std::map<ChunkId, std::vector<std::uint32_t>> found;
  for (const UnitId unit : source.needs.ids())
    for (const Need& need : source.needs[unit]) found[need.chunk].push_back(number(unit));
  return found;
}

const char* dtype_of(const EngineRooms& source, ChunkId id) {
  for (const PayloadId chunk : source.layout.chunks.ids())
    if (source.optimizer->states().payload(chunk) == id) return name(source.layout.chunks[chunk].dtype);
  return source.chunks->chunk(id).kind == ChunkKind::state ? name(DType::f32) : nullptr;
}

Json chunks(const EngineRooms& source, const MoveProblem& problem) {
  const auto used_by = users(source);
  Json list = Json::array();
  for (const ChunkId id : source.chunks->ids()) {
    const Chunk& chunk = source.chunks->chunk(id);
    Json entry = {{"id", number(id)}, {"kind", name(chunk.kind)}, {"bytes", chunk.n_bytes}, {"label", chunk.label}};
    if (const char* dtype = dtype_of(source, id)) entry["dtype"] = dtype;
    if (const auto found = used_by.find(id); found != used_by.end()) entry["units"] = found->second;
    if (const Places rest = problem.chunks[id].rest; rest != kAnywhere) entry["rest"] = name(rest);
    list.push_back(std::move(entry));
  }
  return list;
}

Json samples(const Timeline& timeline, std::uint64_t zero_ns) {
  Json list = Json::array();
  for (const SampleRecord& s : timeline.samples())
    list.push_back({s.t_ns - zero_ns, s.used_bytes[0], s.used_bytes[1], s.used_bytes[2]});
  return list;
}

Json spans(const Timeline& timeline, std::uint64_t zero_ns) {
  Json list = Json::array();
  for (const SpanRecord& s : timeline.spans()) {
    const std::int64_t id = s.id == number(StatefulTensorMgr::kNoUnit) ? -1 : static_cast<std::int64_t>(s.id);
    list.push_back({name(s.lane), id, s.start_ns - zero_ns, s.end_ns - zero_ns, s.n_bytes});
    if (s.phase != Phase::none) list.back().push_back(name(s.phase));
  }
  return list;
}

/// The ends of those steps of which the file has spans or samples.
Json step_ends(const Timeline& timeline, std::uint64_t zero_ns) {
  Json list = Json::array();
  for (const std::uint64_t end_ns : timeline.step_ends_ns())
    if (end_ns >= zero_ns) list.push_back(end_ns - zero_ns);
  return list;
}

std::int64_t ns_of(double seconds) { return std::llround(seconds * 1e9); }

/// The last recorded iteration: `[kind, id, compute_ns, needs, bytes beside chunks, thread_ns, beside]` by moment, null
/// where the bytes are not known; needs are `[chunk, tier, access, dropped, arriving bytes]`.
Json moments(const EngineRooms& source, const MoveProblem& problem) {
  const AccessTrace& trace = source.scheduler->trace();
  const auto non_model_bytes = source.watch.non_model_bytes(trace);
  std::vector<Json> needs(problem.n_moments, Json::array());
  for (const ChunkId id : problem.chunks.ids())
    for (const ChunkUse& use : problem.chunks[id].uses)
      needs[use.moment].push_back({number(id), name(use.tier), name(use.access), use.dropped, use.arriving_bytes});
  Json list = Json::array();
  for (std::uint32_t m = 0; m < problem.n_moments; ++m) {
    const Moment& moment = trace.moment(m);
    list.push_back({name(moment.kind), moment.id, ns_of(trace.seconds().compute[m]), std::move(needs[m]),
                    non_model_bytes[m] ? Json(*non_model_bytes[m]) : Json(), ns_of(trace.seconds().thread[m]),
                    moment.beside});
  }
  return list;
}

/// Bytes that chunks may take on each tier; null where there is no limit, 0 where there is no tier.
Json room(const MoveProblem& problem) {
  const auto of = [&problem](Tier tier) {
    const auto& room = problem.room_bytes[index(tier)];
    return room.empty() ? Json() : limit(room.front());
  };
  return {{"device", of(Tier::device)}, {"host", of(Tier::host)}, {"nvme", problem.nvme ? Json() : Json(0)}};
}

Json budgets(const EngineOptions& options) {
  return {{"device", limit(options.device_budget_bytes)},
          {"host", limit(options.host_budget_bytes)},
          {"nvme", limit(options.nvme_budget_bytes)}};
}

/// Totals of the whole run.
Json totals(const EngineRooms& source) {
  const LinkBytes& moved = source.chunks->moved();
  return {{"h2d_bytes", moved.h2d},
          {"d2h_bytes", moved.d2h},
          {"nvme_read_bytes", moved.nvme_read},
          {"nvme_write_bytes", moved.nvme_write},
          {"wait_seconds", source.mover->wait_seconds()},
          {"update_seconds", source.update_seconds}};
}

Json rates(const LinkCosts& costs) {
  return {{"h2d", std::round(1 / costs.h2d)},
          {"d2h", std::round(1 / costs.d2h)},
          {"nvme_read", std::round(1 / costs.nvme_read)},
          {"nvme_write", std::round(1 / costs.nvme_write)},
          {"nvme_share", costs.nvme_share}};
}

std::uint64_t first_ns(const Timeline& timeline) {
  std::uint64_t zero_ns = timeline.now_ns();
  for (const SampleRecord& s : timeline.samples()) zero_ns = std::min(zero_ns, s.t_ns);
  for (const SpanRecord& s : timeline.spans()) zero_ns = std::min(zero_ns, s.start_ns);
  return zero_ns;
}

}  // namespace

Result<void> write_trace(const std::filesystem::path& path, const EngineRooms& source) {
  const std::uint64_t zero_ns = first_ns(source.timeline);
  const MoveProblem problem = source.scheduler->problem();
  const Json trace = {
      {"castor_trace", 1},
      {"units", source.model.unit_names.entries()},
      {"chunks", chunks(source, problem)},
      {"budget_bytes", budgets(source.options)},
      {"room_bytes", room(problem)},
      {"non_model_bytes", source.watch.non_model_peak_bytes()},
      {"allocator_bytes", source.watch.allocator_bytes()},
      {"link_bytes_per_s", rates(problem.costs)},
      {"moments", moments(source, problem)},
      {"samples", samples(source.timeline, zero_ns)},
      {"spans", spans(source.timeline, zero_ns)},
      {"step_ends_ns", step_ends(source.timeline, zero_ns)},
      {"totals", totals(source)},
  };
  return write_whole_file(path.string(), trace.dump() + '\n');
}

}  // namespace castor
