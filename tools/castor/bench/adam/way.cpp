// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/way.h"

#include <algorithm>
#include <utility>

#include "bench/common/cpu_time.h"

namespace castor::bench {
namespace {

constexpr int kTrials = 2;

}  // namespace

Way in_turn(std::vector<Way> parts) {
  Way all = parts.front();
  all.once = [parts = std::move(parts), next = std::size_t{0}]() mutable {
    return parts[next++ % parts.size()].once();
  };
  return all;
}

Result<Sample> run_way(const Way& way, const Timing& timing) {
  if (way.begin) CASTOR_TRY(way.begin());
  Sample sample;
  const double cpu_before_s = cpu_time_s();
  const std::uint64_t begin_ns = timing.now_ns();
  do {
    if (timing.stopped())
      return Error{ErrorKind::interrupted, "stopped on request; the figures measured so far are shown"};
    CASTOR_ASSIGN(const std::uint64_t n_bytes, way.once());
    sample.n_bytes += n_bytes;
    sample.seconds = static_cast<double>(timing.now_ns() - begin_ns) * 1e-9;
  } while (sample.seconds < timing.seconds);
  sample.cpu_s = cpu_time_s() - cpu_before_s;
  return sample;
}

Result<std::size_t> fastest(const std::vector<Way>& ways, Timing timing) {
  if (ways.size() == 1) return std::size_t{0};
  timing.seconds /= static_cast<double>(kTrials * ways.size());
  std::vector<double> rates(ways.size());
  for (int trial = 0; trial < kTrials; ++trial)
    for (std::size_t i = 0; i < ways.size(); ++i) {
      CASTOR_ASSIGN(const Sample sample, run_way(ways[i], timing));
      rates[i] = std::max(rates[i], sample.gb_per_s());
    }
  return static_cast<std::size_t>(std::max_element(rates.begin(), rates.end()) - rates.begin());
}

}  // namespace castor::bench
