// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <castor/chunk/ids.h>
#include <castor/memory/result.h>

namespace castor::shapes {

/// A module with parameters; `numels` has the elements of each parameter of its own.
struct Unit {
  std::string name;
  std::vector<std::uint64_t> numels;
  /// Share of a sample's tokens that are multiplied with its weights: 0 for a lookup table, 1/4 for one of eight
  /// experts of which each token takes two.
  double token_share = 1;
  bool attends = false;               ///< attention follows it
  std::optional<UnitId> shares = {};  ///< the unit whose weights it uses in place of its own
};

/// A model as its publication describes it, without its code: units in the order of the forward pass, the head last.
struct Model {
  std::string name;
  IndexedVector<UnitId, Unit> units;
  std::uint64_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t classes = 0;  ///< logits of one position: the vocabulary, for images the classes

  UnitId first_block{};               ///< the first unit of the first block; the blocks follow one another
  std::uint32_t units_per_block = 0;  ///< all blocks are alike
  std::uint64_t ffn = 0;              ///< elements between the feed-forward layers of a block, per token
  /// Elements that a block keeps for its backward pass, per token: the inputs of its norms, matrix products and
  /// nonlinearities, and of attention (in tiles, so without scores) queries, keys, values.
  std::uint64_t kept_by_block = 0;

  bool causal = true;              ///< a position attends to itself and earlier ones
  std::uint64_t most_tokens = 0;   ///< the most that a sample may have; 0 = no limit
  std::uint64_t image_tokens = 0;  ///< of every sample; 0 = the input is text

  std::uint64_t n_params() const;
  /// True if the head uses the embedding's weights.
  bool tied() const { return units.back().shares.has_value(); }
};

/// The names of all models, grouped by family.
std::vector<std::string> model_names();

/// A model by name, or a GPT spelled out: `gpt:layers=48,hidden=1600,heads=25,vocab=50304,tied=0`, with `seq` positions
/// unless it spells its own. Errors: usage, naming the known models or the wrong key.
Result<Model> model(std::string_view name, std::uint64_t seq = 1024);

}  // namespace castor::shapes
