// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/cases.h"

#include <algorithm>

#include "bench/adam/adam_memory.h"
#include "bench/io/cases.h"

namespace castor::bench {
namespace {

constexpr Unit kParameters{"Gparam/s", kBytesPerElement};
constexpr Unit kBytes{"GB/s", 1};

std::string threads_text(unsigned n_threads) {
  return std::to_string(n_threads) + (n_threads == 1 ? " thread" : " threads");
}

std::string name_of(const AdamCase& one, const AdamBenchOptions& options) {
  switch (one.match) {
    case Match::bare: return "host, " + threads_text(one.n_threads);
    case Match::bare_in_parts:
      return "host, " + threads_text(one.n_threads) + ", parts of " + exact_count(options.part_elements);
    case Match::torch: return "host, " + threads_text(one.n_threads) + ", against torch";
    case Match::torch_with_casts: return "host, " + threads_text(one.n_threads) + ", against torch and casts";
    case Match::device_copy: return "GPU";
    case Match::busy_bus: return "host beside a busy bus, all bytes";
  }
  return "";
}

double wanted_share(Match match) {
  switch (match) {
    case Match::bare:
    case Match::bare_in_parts: return 0.92;
    case Match::torch: return 1.0;
    case Match::torch_with_casts: return 1.3;
    case Match::device_copy:
    case Match::busy_bus: return 0.90;
  }
  return 0;
}

}  // namespace

std::vector<AdamCase> plan_adam_cases(const AdamBenchOptions& options, bool has_torch) {
  std::vector<AdamCase> cases;
  for (const unsigned n_threads : options.threads) {
    cases.push_back({Match::bare, n_threads});
    cases.push_back({Match::bare_in_parts, n_threads});
    if (!has_torch) continue;
    cases.push_back({Match::torch, n_threads});
    cases.push_back({Match::torch_with_casts, n_threads});
  }
  if (options.device == DeviceKind::cpu) return cases;
  cases.push_back({Match::device_copy, 0});
  cases.push_back({Match::busy_bus, 0});
  return cases;
}

std::vector<unsigned> threads_beside_bus(const AdamBenchOptions& options) {
  const unsigned most = *std::max_element(options.threads.begin(), options.threads.end());
  std::vector<unsigned> counts = {most};
  for (const unsigned fewer : {most - std::min(most, 2u), most / 2})
    if (fewer > 0 && std::find(counts.begin(), counts.end(), fewer) == counts.end()) counts.push_back(fewer);
  return counts;
}

std::string exact_count(std::uint64_t n) {
  std::string text = exact_size(n);
  if (!text.empty() && text.back() == 'B') text.pop_back();
  return text;
}

Figure figure_of(const AdamCase& one, const AdamBenchOptions& options) {
  const bool rival = one.match == Match::torch || one.match == Match::torch_with_casts;
  Figure figure;
  figure.name = name_of(one, options);
  figure.unit = rival ? kParameters : kBytes;
  figure.wanted_share = wanted_share(one.match);
  figure.rival = rival;
  return figure;
}

}  // namespace castor::bench
