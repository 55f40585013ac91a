// SPDX-License-Identifier: Apache-2.0
#include "eviction_policy.h"

#include <algorithm>
#include <tuple>

namespace castor {
namespace {

template <typename Order>
class OrderedPolicy final : public EvictionPolicy {
 public:
  std::size_t choose(std::span<const EvictionCandidate> candidates) const override {
    const auto best = std::max_element(candidates.begin(), candidates.end(),
                                       [](const auto& a, const auto& b) { return Order::key(a) < Order::key(b); });
    return static_cast<std::size_t>(best - candidates.begin());
  }
};

struct FarthestFirst {
  static auto key(const EvictionCandidate& c) {
    return std::tuple(c.unwanted, !c.pending, c.pending ? ~c.last_use : c.next_use, c.clean, ~c.last_use);
  }
};

struct ByRecency {
  static auto key(const EvictionCandidate& c) {
    return std::tuple(c.unwanted, !c.pending, c.once, c.once ? c.last_use : ~c.last_use, c.clean);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_farthest_next_use() { return std::make_unique<OrderedPolicy<FarthestFirst>>(); }

std::unique_ptr<EvictionPolicy> make_by_recency() { return std::make_unique<OrderedPolicy<ByRecency>>(); }

}  // namespace castor
