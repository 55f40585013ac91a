// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <castor/memory/bytes.h>

#include "cli/output.h"

namespace castor::bench {
namespace {

using cli::or_null;
using nlohmann::json;

/// One value per round.
template <typename Of>
json per_round(const IoResult& result, Of of) {
  json values = json::array();
  for (const Round& round : result.rounds) values.push_back(of(round));
  return values;
}

json rate_of(const std::optional<Sample>& sample) { return sample ? json(sample->gb_per_s()) : json(); }

json what_json(const IoCase& what) {
  return {{"rw", name(what.rw)},
          {"tensor_bytes", what.tensor_bytes},
          {"request_bytes", what.request_bytes()},
          {"depth", what.depth},
          {"checksums", what.checksums},
          {"order", what.random ? "random" : "sequential"},
          {"wanted_share", what.wanted_share()}};
}

json result_json(const IoResult& result) {
  const Shares shares = summarize(result.rounds);
  json object = what_json(result.what);
  object.update({{"name", name_of(result.what)},
                 {"value", shares.ours},
                 {"unit", "GB/s"},
                 {"ceiling", or_null(shares.ceiling)},
                 {"ceiling_name", result.ceiling_name.empty() ? json() : json(result.ceiling_name)},
                 {"share", or_null(shares.share)},
                 {"min", or_null(shares.share_min)},
                 {"max", or_null(shares.share_max)},
                 {"runs", result.rounds.size()},
                 {"ceiling_ratio", or_null(shares.ceiling_ratio)},
                 {"cpu_s_per_gib", shares.ours_cpu_s_per_gib},
                 {"ceiling_cpu_s_per_gib", or_null(shares.ceiling_cpu_s_per_gib)},
                 {"badly_measured", shares.above_ceiling()},
                 {"reached", shares.share ? json(shares.reaches(result.what.wanted_share())) : json()}});
  object["values"] = per_round(result, [](const Round& round) { return json(round.ours.gb_per_s()); });
  object["ceilings"] = per_round(result, [](const Round& round) { return rate_of(round.ceiling); });
  object["ceilings_again"] = per_round(result, [](const Round& round) { return rate_of(round.ceiling_again); });
  return object;
}

json cache_json(const CacheGrowth& cache) {
  constexpr double kMiBs = static_cast<double>(kMiB);
  return {{"name", "page cache after put and get of " + exact_size(cache.span_bytes)},
          {"value", static_cast<double>(cache.file_bytes) / kMiBs},
          {"unit", "MiB"},
          {"ceiling", static_cast<double>(kMaxCacheGrowthBytes) / kMiBs},
          {"ceiling_name", "wanted at most"},
          {"share", static_cast<double>(cache.file_bytes) / static_cast<double>(kMaxCacheGrowthBytes)},
          {"min", json()},
          {"max", json()},
          {"runs", 1},
          {"machine_cache_mib", static_cast<double>(cache.machine_bytes) / kMiBs},
          {"reached", cache.file_bytes < kMaxCacheGrowthBytes}};
}

std::string share_text(const Shares& shares, double wanted) {
  if (!shares.share) return "";
  const char* mark = shares.above_ceiling() ? "?" : wanted == 0 ? " " : shares.reaches(wanted) ? "✓" : "✗";
  return fmt::format("{:6.3f} {} {:.2f}–{:.2f}  {:6.2f}", *shares.share, mark, *shares.share_min, *shares.share_max,
                     *shares.ceiling_ratio);
}

std::string judge(const IoResult& result) {
  const Shares shares = summarize(result.rounds);
  const double wanted = result.what.wanted_share();
  if (shares.above_ceiling())
    return fmt::format(
        "{}: {:.2f} of {} is impossible, so the ceiling was measured badly: measure again, with longer runs",
        name_of(result.what), *shares.share, result.ceiling_name);
  if (!shares.share || wanted == 0 || shares.reaches(wanted)) return "";
  return fmt::format("{}: {:.3f} of {}, less than the wanted {:.2f} × {:.2f} (the second ceiling ÷ the first)",
                     name_of(result.what), *shares.share, result.ceiling_name, wanted, *shares.ceiling_ratio);
}

bool has_bar(const IoResult& result) { return summarize(result.rounds).share && result.what.wanted_share() > 0; }

std::string cache_line(const CacheGrowth& cache) {
  return fmt::format(
      "page cache: {} of the store's files after a put and get of {} ({}; the machine's changed by {:.1f} MiB)",
      format_bytes(cache.file_bytes), exact_size(cache.span_bytes),
      cache.file_bytes < kMaxCacheGrowthBytes ? "wanted: below 16 MiB" : "16 MiB or more, which is too much",
      static_cast<double>(cache.machine_bytes) / static_cast<double>(kMiB));
}

}  // namespace

nlohmann::json results_json(const IoReport& report) {
  json results = json::array();
  for (const IoResult& result : report.results) results.push_back(result_json(result));
  if (report.cache) results.push_back(cache_json(*report.cache));
  return results;
}

std::string table_head() {
  return fmt::format("{:<34} {:>7} {:>8}  {:>6}   {:<9}  {:>7}  {}", "GB/s", "castor", "ceiling", "share", "spread",
                     "c'/c", "CPU s/GiB (ceiling)");
}

std::string table_line(const IoResult& result) {
  const Shares shares = summarize(result.rounds);
  const std::string ceiling = shares.ceiling ? fmt::format("{:.2f}", *shares.ceiling) : "-";
  const std::string cpu = shares.ceiling_cpu_s_per_gib ? fmt::format(" ({:.3f})", *shares.ceiling_cpu_s_per_gib) : "";
  return fmt::format("{:<34} {:>7.2f} {:>8}  {:<27}  {:.3f}{}", name_of(result.what), shares.ours, ceiling,
                     share_text(shares, result.what.wanted_share()), shares.ours_cpu_s_per_gib, cpu);
}

std::vector<std::string> verdict(const IoReport& report) {
  std::vector<std::string> lines = report.notes;
  std::size_t n_wanted = 0, n_reached = 0;
  for (const IoResult& result : report.results) {
    if (std::string line = judge(result); !line.empty()) lines.push_back(std::move(line));
    n_wanted += has_bar(result);
    n_reached += has_bar(result) && summarize(result.rounds).reaches(result.what.wanted_share());
  }
  if (report.cache) lines.push_back(cache_line(*report.cache));
  if (n_wanted > 0)
    lines.push_back(fmt::format("{} of {} cases reach the share of their ceiling that is wanted", n_reached, n_wanted));
  return lines;
}

}  // namespace castor::bench
