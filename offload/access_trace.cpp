// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/access_trace.h>

#include <algorithm>

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

void AccessTrace::add(Moment moment, std::span<const Need> needs) {
  for (const Need& need : needs) uses_[{need.chunk, need.tier}].push_back(n_moments());
  moments_.push_back(moment);
  needs_.emplace_back(needs.begin(), needs.end());
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
