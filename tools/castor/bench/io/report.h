// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases.h"
#include "bench/common/shares.h"

namespace castor::bench {

/// One case with all its rounds.
struct IoResult {
  IoCase what;
  std::string ceiling_name;  ///< empty where there is no ceiling
  std::vector<Round> rounds;
};

/// How much memory the system lost to the page cache while a span was put and got.
struct CacheGrowth {
  std::uint64_t span_bytes = 0;
  std::uint64_t file_bytes = 0;    ///< pages of the store's own files (mincore)
  std::int64_t machine_bytes = 0;  ///< of the whole machine, whoever caused it
};

/// What is allowed of it.
inline constexpr std::uint64_t kMaxCacheGrowthBytes = std::uint64_t{16} << 20;

struct IoReport {
  std::vector<IoResult> results;
  std::optional<CacheGrowth> cache;
  std::vector<std::string> notes;  ///< what keeps a comparison from being fair, a sentence each
};

/// The entries of `results` in the JSON of `castor bench`: rates are GB/s (10^9 bytes); `min` and `max` are those of the
/// share, round by round.
nlohmann::json results_json(const IoReport& report);

/// The head of the table and one line per case.
std::string table_head();
std::string table_line(const IoResult& result);

/// What the table means: each share that was not reached, each ceiling that was measured badly, the page cache.
std::vector<std::string> verdict(const IoReport& report);

}  // namespace castor::bench
