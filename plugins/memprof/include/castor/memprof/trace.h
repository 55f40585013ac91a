// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <castor/memory/result.h>
#include <castor/memory/tier.h>

namespace castor::memprof {

/// Bytes in use per tier at one moment.
struct Sample {
  std::int64_t t_ns = 0;
  std::array<std::uint64_t, kNTiers> bytes{};
};

/// One piece of work on a lane; `id` is a unit or a chunk, depending on the lane (docs/trace.md), -1 = neither.
struct Span {
  std::string lane;
  std::int64_t id = -1;
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint64_t bytes = 0;
  std::string phase;  ///< `forward`, `backward` or `update` on `compute`; "" if the file has none
};

/// A trace file in memory; docs/trace.md describes every field.
struct Trace {
  std::string model;
  std::vector<std::string> units;
  std::map<std::int64_t, std::string> chunks;  ///< id → `parameters of chunk 3 bf16 32 MiB`
  std::array<std::optional<std::uint64_t>, kNTiers> budget_bytes;
  std::vector<Sample> samples;
  std::vector<Span> spans;
  std::vector<std::int64_t> step_ends_ns;  ///< ascending; none in older files
  std::map<std::string, double> totals;
};

/// `embed`, as the trace names its units.
std::string unit_name(const Trace& trace, std::int64_t id);

/// `chunk 4 (parameters of chunk 3 bf16 32 MiB)`.
std::string chunk_name(const Trace& trace, std::int64_t id);

/// The unit or chunk that a span worked for.
std::string owner_name(const Trace& trace, const Span& span);

/// Parses the text of a trace file; `origin` is the file's name in messages. Errors: failed, naming the wrong field.
Result<Trace> parse_trace(std::string_view text, const std::string& origin);

/// Reads a trace file. Errors: io if it cannot be read; those of parse_trace.
Result<Trace> read_trace(const std::filesystem::path& path);

}  // namespace castor::memprof
