// SPDX-License-Identifier: Apache-2.0
#include "packing.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <set>
#include <utility>

#include "itinerary_search.h"

namespace castor {
namespace {

/// Shares of the prices at which room is filled, one after the other: copies that save most per room get it first.
constexpr std::array<double, 6> kShares = {1, 0.9, 0.7, 0.5, 0.25, 0};

constexpr int kOrders = 24;  // the most orders that are tried until every chunk finds room

Prices scaled(const Prices& prices, double share) {
  Prices made(prices.n_moments());
  for (const Tier tier : kLimitedTiers)
    for (std::uint32_t m = 0; m < prices.n_moments(); ++m) made.set(tier, m, share * prices.at(tier, m));
  made.refresh();
  return made;
}

double cost(const Itineraries& itineraries) {
  return std::accumulate(itineraries.of.begin(), itineraries.of.end(), 0.0,
                         [](double sum, const Itinerary& itinerary) { return sum + itinerary.link_seconds; });
}

}  // namespace

void Packing::offer(const Itineraries& itineraries) {
  const double seconds = cost(itineraries);
  if (seconds >= best_.link_seconds) return;
  best_ = itineraries;
  best_.link_seconds = seconds;
}

void Packing::put(ChunkId chunk, Itinerary itinerary) {
  const ItineraryGraph& graph = model_.graphs[chunk];
  graph.add(itinerary, -static_cast<std::int64_t>(graph.n_bytes()), room_);
  now_.of[chunk] = std::move(itinerary);
}

void Packing::remove(ChunkId chunk) {
  const ItineraryGraph& graph = model_.graphs[chunk];
  graph.add(now_.of[chunk], static_cast<std::int64_t>(graph.n_bytes()), room_);
}

bool Packing::insert(ChunkId chunk, const Prices& prices) {
  Itinerary itinerary = ItinerarySearch(model_.graphs[chunk]).cheapest(prices, &room_);
  if (itinerary.places.empty()) return false;
  put(chunk, std::move(itinerary));
  return true;
}

/// Inserts all chunks anew in `order`; returns those that found no room.
Packing::Chunks Packing::insert_all(const Prices& prices, const Chunks& order) {
  room_ = Room(model_.free);
  now_.of.assign(model_.graphs.size(), {});
  Chunks without;
  for (const ChunkId chunk : order)
    if (!insert(chunk, prices)) without.push_back(chunk);
  return without;
}

void Packing::build(const Prices& prices) {
  struct Rank {
    int n_size_failed, n_failed;
    std::uint64_t n_bytes;
    auto operator<=>(const Rank&) const = default;
  };
  IndexedVector<ChunkId, Rank> ranks;
  for (const ItineraryGraph& graph : model_.graphs) ranks.push_back({0, 0, graph.n_bytes()});
  const auto all = model_.graphs.ids();
  Chunks order(all.begin(), all.end());
  for (int n_tries = 0; n_tries < kOrders; ++n_tries) {
    std::stable_sort(order.begin(), order.end(), [&](ChunkId a, ChunkId b) { return ranks[a] > ranks[b]; });
    const Chunks without = insert_all(prices, order);
    if (without.empty()) return fill(prices, order), offer(now_);
    std::set<std::uint64_t> sizes;
    for (const ChunkId chunk : without) ++ranks[chunk].n_failed, sizes.insert(ranks[chunk].n_bytes);
    for (Rank& rank : ranks) rank.n_size_failed += sizes.contains(rank.n_bytes) ? 1 : 0;
  }
}

/// Takes out chunk after chunk and puts it back where room is left, at falling prices.
void Packing::fill(const Prices& prices, const Chunks& order) {
  for (const double share : kShares) {
    const Prices lower = scaled(prices, share);
    for (const ChunkId chunk : order) {
      if (!could_move_less(chunk, now_.of[chunk])) continue;
      remove(chunk);
      Itinerary itinerary = ItinerarySearch(model_.graphs[chunk]).cheapest(lower, &room_);
      put(chunk,
          itinerary.link_seconds < now_.of[chunk].link_seconds ? std::move(itinerary) : std::move(now_.of[chunk]));
    }
  }
}

bool Packing::could_move_less(ChunkId chunk, const Itinerary& itinerary) const {
  return itinerary.link_seconds > model_.least_seconds[chunk];
}

/// One chunk of `of`, a few neighbours, which take room at about the same moments, and a few others.
Packing::Chunks Packing::some_chunks(const Chunks& of) {
  const std::size_t n_chunks = model_.graphs.size();
  const auto below = [this](std::size_t n) -> std::size_t { return random_() % n; };
  Chunks chunks;
  const std::size_t first = index(of[below(of.size())]), n_neighbours = 1 + below(6), n_others = below(6);
  for (std::size_t i = 0; i < n_neighbours; ++i) chunks.push_back(id_at<ChunkId>((first + i) % n_chunks));
  for (std::size_t i = 0; i < n_others; ++i) chunks.push_back(id_at<ChunkId>(below(n_chunks)));
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  std::shuffle(chunks.begin(), chunks.end(), random_);
  return chunks;
}

/// Takes the chunks out and puts them back one after the other; true where that costs less. Where one finds no room, or
/// the result costs more, the former itineraries are restored.
bool Packing::recreate(const Chunks& chunks, const Prices& prices) {
  std::vector<Itinerary> before;
  double gain_seconds = 0;
  for (const ChunkId chunk : chunks) {
    remove(chunk);
    gain_seconds += now_.of[chunk].link_seconds;
    before.push_back(now_.of[chunk]);
  }
  std::size_t n_back = 0;
  for (; n_back < chunks.size() && insert(chunks[n_back], prices); ++n_back)
    gain_seconds -= now_.of[chunks[n_back]].link_seconds;
  if (n_back == chunks.size() && gain_seconds >= 0) return gain_seconds > 0;
  while (n_back > 0) remove(chunks[--n_back]);
  for (std::size_t i = 0; i < chunks.size(); ++i) put(chunks[i], std::move(before[i]));
  return false;
}

void Packing::shake(const Prices& prices, std::uint32_t n_tries) {
  if (!best_.found() || best_.of.empty()) return;
  Chunks that_gain;
  for (const ChunkId chunk : best_.of.ids())
    if (could_move_less(chunk, best_.of[chunk])) that_gain.push_back(chunk);
  if (that_gain.empty()) return;
  now_ = best_;
  room_ = Room(model_.free);
  for (const ChunkId chunk : now_.of.ids()) put(chunk, std::move(now_.of[chunk]));
  std::vector<Prices> shares;
  for (const double share : kShares) shares.push_back(scaled(prices, share));
  for (std::uint32_t i = 0; i < n_tries; ++i) {
    const Chunks chunks = some_chunks(that_gain);  // drawn before the share: plans are the same by every compiler
    if (recreate(chunks, shares[random_() % shares.size()])) offer(now_);
  }
}

}  // namespace castor
