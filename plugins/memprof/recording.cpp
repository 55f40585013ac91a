// SPDX-License-Identifier: Apache-2.0
#include <castor/memprof/recording.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <stdexcept>

#include <castor/memory/budget.h>
#include <castor/memory/bytes.h>
#include <castor/memprof/trace_file.h>

namespace castor::memprof {
namespace {

using nlohmann::json;

constexpr double kNsPerSecond = 1e9;

[[noreturn]] void wrong(const std::string& what) { throw std::runtime_error(what); }

Tier tier_of(const json& text) {
  for (const Tier tier : {Tier::device, Tier::host})
    if (text == name(tier)) return tier;
  wrong("a chunk is needed on " + text.dump() + ", which is neither device nor host");
}

Access access_of(const json& text) {
  for (const Access access : {Access::read, Access::update, Access::overwrite})
    if (text == name(access)) return access;
  wrong("access " + text.dump() + " is none of read, update, overwrite");
}

/// Parses `host+nvme`, the spelling of name(Places).
Places places_of(const std::string& text) {
  for (Places places = kNowhere; places < kNPlaces; ++places)
    if (text == name(places)) return places;
  wrong("a chunk rests on " + text + ", which are no tiers");
}

/// Numbers the chunks anew, because the numbers in the file may have gaps.
std::map<std::int64_t, ChunkId> read_chunks(const json& list, MoveProblem& problem) {
  std::map<std::int64_t, ChunkId> places;
  for (const json& chunk : list) {
    const auto n_bytes = chunk.at("bytes").get<std::uint64_t>();
    if (n_bytes == 0) wrong("chunk " + chunk.at("id").dump() + " has 0 bytes");
    const ChunkId id = problem.chunks.push_back({n_bytes, {}, places_of(chunk.value("rest", name(kAnywhere)))});
    if (!places.emplace(chunk.at("id"), id).second) wrong("there are two chunks " + chunk.at("id").dump());
  }
  return places;
}

/// A byte count that may be missing or null.
std::uint64_t bytes_or(std::uint64_t otherwise, const json& bytes, const std::string& what) {
  if (bytes.is_null()) return otherwise;
  if (!bytes.is_number_unsigned()) wrong(what + " is " + bytes.dump() + ", not a number of bytes");
  return bytes;
}

/// If the file has no time of the training thread, the compute time, or 0 for a moment that needs the device.
void add_seconds(const json& row, MomentSeconds& seconds) {
  seconds.compute.push_back(row.at(2).get<double>() / kNsPerSecond);
  const auto on_device = [](const json& need) { return need.at(1) == name(Tier::device); };
  const bool streams = std::any_of(row.at(3).begin(), row.at(3).end(), on_device);
  const double unsaid_s = streams ? 0 : seconds.compute.back();
  seconds.thread.push_back(row.size() > 5 ? row.at(5).get<double>() / kNsPerSecond : unsaid_s);
}

void read_moments(const json& list, Recording& recording, const std::map<std::int64_t, ChunkId>& places) {
  std::vector<bool> beside;
  for (const json& row : list) {
    for (const json& need : row.at(3)) {
      const auto found = places.find(need.at(0));
      if (found == places.end()) wrong("a moment needs chunk " + need.at(0).dump() + ", which is not among the chunks");
      auto& uses = recording.problem.chunks[found->second].uses;
      if (!uses.empty() && uses.back().moment == recording.problem.n_moments)
        wrong("a moment needs chunk " + need.at(0).dump() + " twice");
      const auto arriving_bytes = need.size() > 4 ? need.at(4).get<std::uint64_t>() : 0;
      uses.push_back({recording.problem.n_moments, tier_of(need.at(1)), access_of(need.at(2)), need.at(3).get<bool>(),
                      arriving_bytes});
    }
    recording.non_model_bytes_at.push_back(
        bytes_or(recording.non_model_bytes, row.size() > 4 ? row.at(4) : json(),
                 "what moment " + std::to_string(recording.problem.n_moments) + " holds beside chunks"));
    add_seconds(row, recording.seconds);
    beside.push_back(row.size() > 6 && row.at(6).get<bool>());
    const bool norm = row.at(0) == name(MomentKind::norm);
    recording.problem.joins.push_back(norm && joins(MomentKind::norm, row.at(3).size()));
    ++recording.problem.n_moments;
  }
  set_beside(recording.problem, std::move(beside));
}

void check_uses(const MoveProblem& problem) {
  for (const PlannedChunk& chunk : problem.chunks) {
    if (chunk.rest == kNowhere && !chunk.uses.empty()) wrong("a chunk that rests nowhere is needed");
    for (std::size_t i = 0; i < chunk.uses.size(); ++i)
      if (chunk.uses[i].dropped && chunk.uses[(i + 1) % chunk.uses.size()].access != Access::overwrite)
        wrong("a chunk is needed at moment " + std::to_string(chunk.uses[i].moment) +
              " for the last time, but its next use does not overwrite it");
  }
}

void read_room(const json& room, MoveProblem& problem) {
  for (const Tier tier : {Tier::device, Tier::host}) {
    const json limit = room.value(name(tier), json());
    problem.room_bytes[index(tier)].assign(problem.n_moments,
                                           limit.is_null() ? Budget::kUnlimited : limit.get<std::uint64_t>());
  }
  problem.nvme = !room.contains("nvme") || room["nvme"].is_null();
}

/// Bytes of the device's budget that chunks may not take; without a budget, those of non-model data. Requires: the room
/// is read.
std::uint64_t taken_bytes(const json& budget, const Recording& recording) {
  const json of_device = budget.value(name(Tier::device), json());
  if (of_device.is_null()) return recording.non_model_bytes;
  const std::uint64_t budget_bytes = bytes_or(0, of_device, "budget_bytes");
  return saturating_sub(budget_bytes, recording.problem.room_bytes[index(Tier::device)].front());
}

double seconds_per_byte(const json& rates, const char* link) {
  const auto rate = rates.at(link).get<double>();
  if (!(rate > 0)) wrong(std::string("the rate of ") + link + " is " + rates.at(link).dump());
  return 1 / rate;
}

double share_of(const json& rates) {
  const double share = rates.value("nvme_share", 0.0);
  if (!(share >= 0 && share <= 1)) wrong("nvme_share is " + rates["nvme_share"].dump() + ", not a number from 0 to 1");
  return share;
}

Recording read_step(const json& object) {
  if (!object.contains("moments") || object["moments"].empty())
    wrong("it holds no moments of a whole iteration (were there two steps or more, with `plugin` gemini?)");
  Recording recording;
  recording.model = object.value("model", "");
  recording.non_model_bytes = object.value("non_model_bytes", std::uint64_t{0});
  recording.allocator_bytes = bytes_or(0, object.value("allocator_bytes", json()), "allocator_bytes");
  const auto places = read_chunks(object.at("chunks"), recording.problem);
  read_moments(object["moments"], recording, places);
  check_uses(recording.problem);
  read_room(object.value("room_bytes", json::object({{"nvme", 0}})), recording.problem);
  recording.taken_bytes = taken_bytes(object.value("budget_bytes", json::object()), recording);
  const json& rates = object.at("link_bytes_per_s");
  recording.problem.costs = {seconds_per_byte(rates, "h2d"), seconds_per_byte(rates, "d2h"),
                             seconds_per_byte(rates, "nvme_read"), seconds_per_byte(rates, "nvme_write"),
                             share_of(rates)};
  return recording;
}

}  // namespace

std::uint64_t device_peak_bytes(const Recording& recording, const MovePlan& plan) {
  const auto& chunk_bytes = plan.used_bytes[index(Tier::device)];
  std::uint64_t most = 0;
  for (std::size_t m = 0; m < chunk_bytes.size(); ++m)
    most = std::max(most, chunk_bytes[m] + recording.non_model_bytes_at.at(m));
  return most + recording.allocator_bytes;
}

Result<Recording> parse_recording(std::string_view text, const std::string& origin) {
  Recording recording;
  CASTOR_TRY(parse_trace_file(text, origin, [&recording](const json& object) { recording = read_step(object); }));
  return recording;
}

Result<Recording> read_recording(const std::filesystem::path& path) {
  CASTOR_ASSIGN(const std::string text, read_trace_file(path));
  return parse_recording(text, path.string());
}

}  // namespace castor::memprof
