// SPDX-License-Identifier: Apache-2.0
#include "exact_search.h"

#include <algorithm>

#include "itinerary_search.h"

namespace castor {
namespace {

constexpr std::size_t kMostItineraries = 5000;  // of one chunk
constexpr std::uint64_t kMostSteps = 300'000;   // tries times moments: a millisecond

}  // namespace

bool ExactSearch::run() {
  n_tries_left_ = kMostSteps / std::max(model_.n_moments, 1U);
  chosen_.of.resize(model_.graphs.size());
  if (!list_itineraries()) return false;
  const auto all = model_.graphs.ids();
  order_.assign(all.begin(), all.end());
  std::stable_sort(order_.begin(), order_.end(),
                   [this](ChunkId a, ChunkId b) { return itineraries_[a].size() < itineraries_[b].size(); });
  choose(0, 0);
  return n_tries_left_ > 0;
}

/// Lists the itineraries of every chunk that could close the gap; false where a chunk has too many.
bool ExactSearch::list_itineraries() {
  const double gap_seconds = packing_.best().link_seconds - relaxation_.bound_seconds();
  itineraries_.resize(model_.graphs.size());
  for (const ChunkId chunk : model_.graphs.ids()) {
    auto& itineraries = itineraries_[chunk];
    const double limit = relaxation_.least_seconds(chunk) + gap_seconds;
    if (!ItinerarySearch(model_.graphs[chunk]).all_below(relaxation_.prices(), limit, kMostItineraries, itineraries))
      return false;
    std::sort(itineraries.begin(), itineraries.end(),
              [](const Itinerary& a, const Itinerary& b) { return a.priced_seconds < b.priced_seconds; });
  }
  return true;
}

/// Chooses an itinerary for the chunk at `depth` of the order, and so on. `spent_seconds` is the cost of the
/// itineraries chosen so far above the least costs of their chunks.
void ExactSearch::choose(std::size_t depth, double spent_seconds) {
  if (depth == order_.size()) return packing_.offer(chosen_);
  const ChunkId chunk = order_[depth];
  const ItineraryGraph& graph = model_.graphs[chunk];
  const auto n_bytes = static_cast<std::int64_t>(graph.n_bytes());
  for (const Itinerary& itinerary : itineraries_[chunk]) {
    const double spent = spent_seconds + itinerary.priced_seconds - relaxation_.least_seconds(chunk);
    if (relaxation_.bound_seconds() + spent >= packing_.best().link_seconds * (1 - kCostRounding)) return;
    if (n_tries_left_ == 0 || --n_tries_left_ == 0) return;
    if (!graph.fits(itinerary, room_)) continue;
    graph.add(itinerary, -n_bytes, room_);
    chosen_.of[chunk] = itinerary;
    choose(depth + 1, spent);
    graph.add(itinerary, n_bytes, room_);
  }
}

}  // namespace castor
