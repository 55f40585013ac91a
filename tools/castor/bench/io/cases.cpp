// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <algorithm>
#include <array>

namespace castor::bench {
namespace {

constexpr std::uint64_t kSmallTensorBytes = 64 * kKiB;
constexpr std::uint64_t kBytesBehind = kMiB;
constexpr std::array<Rw, 3> kAllRw = {Rw::read, Rw::write, Rw::mixed};

template <typename T>
std::vector<T> or_usual(const std::vector<T>& chosen, std::vector<T> usual) {
  return chosen.empty() ? usual : chosen;
}

unsigned n_drives_of(const IoBenchOptions& options) { return static_cast<unsigned>(options.folders.size()); }

/// The usual cases, grouped by store.
std::vector<IoCase> usual_cases(const IoBenchOptions& options) {
  std::vector<IoCase> cases;
  const auto add = [&](Rw rw, std::uint64_t tensor_bytes, bool checksums, bool against_unchecked = false) {
    cases.push_back({rw, tensor_bytes, kUsualBlockBytes, kUsualDepth, options.random, checksums, against_unchecked,
                     n_drives_of(options), options.memory_bytes});
  };
  for (const Rw rw : kAllRw) add(rw, kMiB, true);
  for (const Rw rw : {Rw::read, Rw::write}) add(rw, kMiB, true, true);
  for (const Rw rw : kAllRw) add(rw, kMiB, false);
  for (const Rw rw : {Rw::read, Rw::write}) add(rw, kSmallTensorBytes, true);
  return cases;
}

std::vector<IoCase> combinations(const IoBenchOptions& options, bool checksums) {
  std::vector<IoCase> cases;
  for (const std::uint64_t tensor_bytes : or_usual(options.sizes, {kMiB}))
    for (const std::uint64_t block_bytes : or_usual(options.blocks, {kUsualBlockBytes}))
      for (const unsigned depth : or_usual(options.depths, {kUsualDepth}))
        for (const Rw rw : or_usual(options.rw, {kAllRw.begin(), kAllRw.end()}))
          cases.push_back({rw, tensor_bytes, block_bytes, depth, options.random, checksums, false, n_drives_of(options),
                           options.memory_bytes});
  return cases;
}

}  // namespace

std::uint64_t IoCase::request_bytes() const { return std::min(block_bytes, align_up(tensor_bytes, kBufferAlignBytes)); }

std::size_t IoCase::n_in_flight() const {
  const auto at_drives = (in_flight_bytes() + tensor_bytes - 1) / tensor_bytes;
  return at_drives + std::clamp<std::uint64_t>(kBytesBehind / tensor_bytes, 2, 2 * at_drives);
}

double IoCase::wanted_share() const {
  if (against_unchecked) return 0.97;
  if (tensor_bytes >= kMiB) return rw == Rw::mixed ? 0.95 : 0.97;
  return tensor_bytes >= kSmallTensorBytes ? 0.85 : 0;
}

std::vector<IoCase> plan_cases(const IoBenchOptions& options) {
  const bool null_engine = options.engine == "null";
  if (options.usual() && !null_engine) return usual_cases(options);
  return combinations(options, options.checksums.value_or(!null_engine));
}

std::string exact_size(std::uint64_t n_bytes) {
  constexpr std::array<const char*, 5> kUnits = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; n_bytes > 0 && n_bytes % 1024 == 0 && unit + 1 < kUnits.size(); ++unit) n_bytes /= 1024;
  return std::to_string(n_bytes) + kUnits[unit];
}

std::string name_of(const IoCase& one) {
  std::string text = std::string(name(one.rw)) + " " + exact_size(one.tensor_bytes);
  if (!one.checksums) text += " unchecked";
  if (one.against_unchecked) text += " cost of checksums";
  if (one.block_bytes != kUsualBlockBytes) text += " block " + exact_size(one.block_bytes);
  if (one.depth != kUsualDepth) text += " depth " + std::to_string(one.depth);
  return one.random ? text + " random" : text;
}

}  // namespace castor::bench
