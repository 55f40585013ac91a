// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/access_trace.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace castor {

const char* name(MomentKind kind) {
  switch (kind) {
    case MomentKind::forward: return "forward";
    case MomentKind::backward: return "backward";
    case MomentKind::norm: return "norm";
    case MomentKind::update: return "update";
  }
  throw ContractViolation("MomentKind holds no kind");
}

const char* name(Access access) {
  switch (access) {
    case Access::read: return "read";
    case Access::update: return "update";
    case Access::overwrite: return "overwrite";
  }
  throw ContractViolation("Access holds no access");
}

void AccessTrace::add(Moment moment, std::span<const Need> needs) {
  for (const Need& need : needs) uses_[{need.chunk, need.tier}].push_back(n_moments());
  moments_.push_back(moment);
  needs_.emplace_back(needs.begin(), needs.end());
  compute_seconds_.push_back(0);
}

void AccessTrace::add_need(const Need& need) {
  if (empty()) throw ContractViolation("AccessTrace: a need of no moment");
  auto& needs = needs_.back();
  const auto same_chunk = [&need](const Need& other) { return other.chunk == need.chunk; };
  if (std::any_of(needs.begin(), needs.end(), same_chunk)) return;
  needs.push_back(need);
  uses_[{need.chunk, need.tier}].push_back(n_moments() - 1);
}

void AccessTrace::add_arrival(ChunkId chunk, std::uint64_t n_bytes) {
  if (empty()) throw ContractViolation("AccessTrace: an arrival at no moment");
  arriving_bytes_[{n_moments() - 1, chunk}] += n_bytes;
}

std::uint64_t AccessTrace::arriving_bytes(std::uint64_t position, ChunkId chunk) const {
  const auto found = arriving_bytes_.find({position, chunk});
  return found == arriving_bytes_.end() ? 0 : found->second;
}

void AccessTrace::drop(ChunkId chunk) {
  std::optional<std::uint64_t> last;
  for (const Tier tier : {Tier::device, Tier::host})
    if (const auto found = uses_.find({chunk, tier}); found != uses_.end())
      last = std::max(last.value_or(0), found->second.back());
  if (last) drops_.emplace(*last, chunk);
}

void AccessTrace::set_compute_seconds(std::vector<double> seconds) {
  if (seconds.size() != n_moments())
    throw ContractViolation("AccessTrace: seconds of " + std::to_string(seconds.size()) + " moments");
  compute_seconds_ = std::move(seconds);
}

void AccessTrace::clear() { *this = AccessTrace(); }

std::uint64_t AccessTrace::distance(ChunkId chunk, Tier tier, std::uint64_t position) const {
  const auto found = uses_.find({chunk, tier});
  if (found == uses_.end()) return kNever;
  const auto& uses = found->second;
  const auto next = std::lower_bound(uses.begin(), uses.end(), position);
  return next != uses.end() ? *next - position : n_moments() - position + uses.front();
}

}  // namespace castor
