// SPDX-License-Identifier: Apache-2.0
#include <castor/states/state_map.h>

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "../../support/seeds.h"

namespace castor {
namespace {

/// The map of a model of a few tensors of all dtypes, some of them frozen, in chunks and parts of any size.
StateMap random_map(std::mt19937_64& random) {
  std::vector<TensorSpec> tensors(1 + random() % 12);
  for (TensorSpec& tensor : tensors) {
    tensor.numel = 1 + random() % 5000;
    tensor.dtype = static_cast<DType>(random() % 3);
    tensor.trainable = random() % 4 != 0;
  }
  StateMap map;
  map.layout = plan_layout(tensors, {4096 + random() % 8192, 1, random() % 2 == 0 ? 0u : 6u});
  map.format = {random() % 2 == 0, static_cast<MomentFormat>(random() % 3), random(), random() % 3 != 0};
  map.first_key = random();
  std::size_t next = random() % 7;
  for (const ChunkShape& shape : map.layout.chunks) {
    map.payload.push_back(id_at<ChunkId>(next++));
    const IdRange states(id_at<ChunkId>(next), shape.trainable ? shape.n_tiles() : 0);
    map.states.push_back(IndexedVector<TileId, ChunkId>({states.begin(), states.end()}));
    next += states.size() + 1;
  }
  for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    map.registered.push_back(id_at<RegisteredId>(tensors.size() - 1 - tensor));
    map.n_updates.push_back(random());
  }
  return map;
}

TEST(StateMap, ComesBackFromItsWords) {
  for (std::uint64_t seed = 1; seed <= test::n_seeds(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const StateMap map = random_map(random);
    const auto back = decode_state_map(encode_state_map(map));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_TRUE(back->same_places(map));
    EXPECT_EQ(back->n_updates, map.n_updates);
    EXPECT_EQ(back->first_key, map.first_key);
  }
}

TEST(StateMap, WordsThatAreMissingOrTooManyAreFound) {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> words = encode_state_map(random_map(random));
  for (std::size_t n = 0; n < words.size(); ++n)
    EXPECT_EQ(decode_state_map(std::span(words).first(n)).error().kind, ErrorKind::io) << n << " words";
  words.push_back(0);
  EXPECT_EQ(decode_state_map(words).error().kind, ErrorKind::io);
}

// Any value in one word gives an error, or a map whose tensors lie in its chunks and whose chunks have all their
// states.
TEST(StateMap, NoWordIsBelieved) {
  for (std::uint64_t seed = 1; seed <= test::n_seeds(200); ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<std::uint64_t> words = encode_state_map(random_map(random));
    for (std::size_t i = 0; i < words.size(); ++i) {
      auto changed = words;
      changed[i] = random() >> random() % 64;
      const auto map = decode_state_map(changed);
      if (!map.ok()) continue;
      for (const TensorPlace& place : map->layout.tensors) {
        ASSERT_LT(index(place.chunk), map->layout.chunks.size()) << "seed " << seed << ", word " << i;
        ASSERT_LE(place.offset + place.numel, map->layout.chunks[place.chunk].numel)
            << "seed " << seed << ", word " << i;
      }
      for (const PayloadId k : map->layout.chunks.ids())
        if (map->layout.chunks[k].trainable) {
          ASSERT_EQ(map->states[k].size(), map->layout.chunks[k].n_tiles());
        }
    }
  }
}

}  // namespace
}  // namespace castor
