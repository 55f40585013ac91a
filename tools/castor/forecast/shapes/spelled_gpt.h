// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <castor/memory/result.h>

namespace castor::shapes {

/// A GPT-2: learned positions, biases, feed-forward parts four times as wide. The vocabulary is that of the publication
/// (50257), padded to a multiple of 128 as `castor train` has it.
struct GptSizes {
  std::uint64_t layers, hidden;
  std::uint64_t heads = 0;  ///< shapes do not depend on it
  std::uint64_t vocab = 50304;
  std::uint64_t positions = 1024;
  bool tied = true;  ///< the head shares the embedding's weight
};

/// Understands `gpt:layers=48,hidden=1600,heads=25,vocab=50304,tied=0,seq=1024`, as `castor train` does: what is not
/// spelled out is that of gpt2-124m, but the positions are `seq=` or else `positions`. `keys` is what comes after the
/// colon. Errors: usage, naming the key that is wrong.
Result<GptSizes> parse_gpt(std::string_view keys, std::uint64_t positions);

}  // namespace castor::shapes
