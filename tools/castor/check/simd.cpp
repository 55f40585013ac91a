// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <utility>

#include "check/probes.h"

namespace castor::check {
namespace {

/// Finds `flag` as a whole word between spaces, tabs or line ends.
bool has_flag(const std::string& cpuinfo, const std::string& flag) {
  constexpr std::string_view kBetween = " \t\n";
  for (auto at = cpuinfo.find(flag); at != std::string::npos; at = cpuinfo.find(flag, at + 1)) {
    const auto end = at + flag.size();
    const bool starts = at == 0 || kBetween.find(cpuinfo[at - 1]) != std::string_view::npos;
    const bool ends = end == cpuinfo.size() || kBetween.find(cpuinfo[end]) != std::string_view::npos;
    if (starts && ends) return true;
  }
  return false;
}

}  // namespace

std::string simd_of(const std::string& cpuinfo) {
  std::string found;
  for (const auto& [flag, shown] :
       {std::pair{"avx512f", "AVX-512"}, {"avx2", "AVX2"}, {"asimd", "NEON"}, {"sve", "SVE"}}) {
    if (has_flag(cpuinfo, flag)) found += (found.empty() ? "" : ", ") + std::string(shown);
  }
  return found;
}

}  // namespace castor::check
