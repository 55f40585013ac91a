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
  std::string ceiling_name;  ///< empty if there is no ceiling
  std::vector<Round> rounds;
};

/// Growth of the page cache while one span was put and got.
struct CacheGrowth {
  std::uint64_t span_bytes = 0;
  std::uint64_t file_bytes = 0;    ///< pages of the store's own files (mincore)
  std::int64_t machine_bytes = 0;  ///< of the whole machine, other processes included
};

/// The largest growth of the store's own pages that is accepted.
inline constexpr std::uint64_t kMaxCacheGrowthBytes = std::uint64_t{16} << 20;

struct IoReport {
  std::vector<IoResult> results;
  std::optional<CacheGrowth> cache;
  std::vector<std::string> notes;  ///< the reasons why a comparison is not fair, a sentence each
};

/// The entries of `results` in the JSON of `castor bench`: rates are GB/s (10^9 bytes); `min` and `max` are the least
/// and the largest share of a round.
nlohmann::json results_json(const IoReport& report);

/// The head of the table and one line per case.
std::string table_head();
std::string table_line(const IoResult& result);

/// The summary below the table: each share below its bar, each ceiling that was measured badly, the page cache.
std::vector<std::string> verdict(const IoReport& report);

}  // namespace castor::bench
