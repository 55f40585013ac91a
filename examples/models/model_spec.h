// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace castor {

/// A parsed model name: `gpt:layers=4,tied=0` is kind gpt with two numbers.
struct ModelSpec {
  std::string kind;                            ///< gpt, llama, mixtral, vit or mlp
  std::map<std::string, std::int64_t> values;  ///< every key of the kind, but a gpt's `seq` only if it was spelled out
};

/// Parses the names of make_model. Errors: usage, naming the part that was not understood and the known ones.
Result<ModelSpec> parse_model_name(std::string_view name);

}  // namespace castor
