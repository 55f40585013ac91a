// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <castor/memory/result.h>

namespace castor::shapes {

/// A GPT-2: learned positions, biases, feed-forward parts four times as wide. The vocabulary is the published one
/// (50257), padded to a multiple of 128 as in `castor train`.
struct GptSizes {
  std::uint64_t layers, hidden;
  std::uint64_t heads = 0;  ///< does not affect the shapes
  std::uint64_t vocab = 50304;
  std::uint64_t positions = 1024;
  bool tied = true;  ///< the head shares the embedding's weight
};

/// Parses `gpt:layers=48,hidden=1600,heads=25,vocab=50304,tied=0,seq=1024` as `castor train` does: missing keys have
/// the values of gpt2-124m, except positions, which are `seq=` or else `positions`. `keys` is the text after the colon.
/// Errors: usage, naming the wrong key.
Result<GptSizes> parse_gpt(std::string_view keys, std::uint64_t positions);

}  // namespace castor::shapes
