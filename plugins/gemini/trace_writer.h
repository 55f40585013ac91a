// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "gemini_strategy.h"

namespace castor {

/// What a trace file is written from.
struct TraceSource {
  const ModelShape& model;
  const ChunkLayout& layout;
  const ChunkManager& chunks;
  const OffloadOptimizer& optimizer;
  const std::vector<std::vector<Need>>& needs;
  const Timeline& timeline;
  const GeminiOptions& options;
  const StatefulTensorMgr& mover;
  const Scheduler& scheduler;
  double update_seconds;
  const DeviceWatch& watch;
};

/// Writes the trace file that docs/trace.md describes. Errors: io.
Result<void> write_trace(const std::filesystem::path& path, const TraceSource& source);

}  // namespace castor
