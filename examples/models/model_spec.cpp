// SPDX-License-Identifier: Apache-2.0
#include "model_spec.h"

#include <castor/models/model.h>

#include <charconv>
#include <utility>

namespace castor {
namespace {

using Values = std::map<std::string, std::int64_t>;

constexpr std::int64_t kLargest = 1 << 24;

ModelSpec gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {"gpt",
          {{"layers", layers}, {"hidden", hidden}, {"heads", heads}, {"vocab", 50304}, {"tied", 1}, {"seq", 1024}}};
}

struct LlamaSizes {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocab, rotary_base, experts = 0;
};

ModelSpec llama(const LlamaSizes& sizes) {
  Values values = {{"layers", sizes.layers},          {"hidden", sizes.hidden}, {"heads", sizes.heads},
                   {"kv_heads", sizes.kv_heads},      {"ffn", sizes.ffn},       {"vocab", sizes.vocab},
                   {"rotary_base", sizes.rotary_base}};
  if (sizes.experts > 0) values["experts"] = sizes.experts;
  return {sizes.experts > 0 ? "mixtral" : "llama", std::move(values)};
}

ModelSpec vit(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t patch) {
  return {"vit", {{"layers", layers}, {"hidden", hidden}, {"heads", heads}, {"patch", patch}, {"classes", 1000}}};
}

/// GPT-2: Radford et al. 2019, table 2, with the vocabulary padded to a multiple of 128, and the 10b and 20b of
/// Colossal-AI's Gemini benchmark; LLaMA-2: Touvron et al. 2023; LLaMA-3: Grattafiori et al. 2024, table 3; Mixtral:
/// Jiang et al. 2024, table 1; ViT: Dosovitskiy et al. 2021, table 1.
const std::vector<std::pair<std::string_view, ModelSpec>>& published() {
  static const std::vector<std::pair<std::string_view, ModelSpec>> table = {
      {"gpt2-124m", gpt(12, 768, 12)},
      {"gpt2-355m", gpt(24, 1024, 16)},
      {"gpt2-774m", gpt(36, 1280, 20)},
      {"gpt2-1.5b", gpt(48, 1600, 25)},
      {"gpt2-10b", gpt(50, 4096, 16)},
      {"gpt2-20b", gpt(25, 8192, 16)},
      {"llama2-7b", llama({32, 4096, 32, 32, 11008, 32000, 10'000})},
      {"llama2-13b", llama({40, 5120, 40, 40, 13824, 32000, 10'000})},
      {"llama2-70b", llama({80, 8192, 64, 8, 28672, 32000, 10'000})},
      {"llama3-8b", llama({32, 4096, 32, 8, 14336, 128256, 500'000})},
      {"llama3-70b", llama({80, 8192, 64, 8, 28672, 128256, 500'000})},
      {"mixtral-8x7b", llama({32, 4096, 32, 8, 14336, 32000, 1'000'000, 8})},
      {"vit-b", vit(12, 768, 12, 16)},
      {"vit-l", vit(24, 1024, 16, 16)},
      {"vit-h", vit(32, 1280, 16, 14)},
      {"mlp", {"mlp", {{"layers", 3}, {"hidden", 512}, {"features", 512}, {"classes", 10}}}},
  };
  return table;
}

/// Null for an unknown name.
const ModelSpec* find_published(std::string_view name) {
  for (const auto& [known, spec] : published())
    if (known == name) return &spec;
  return nullptr;
}

/// The named model with the default values of a spelled-out one; null for an unknown kind.
const ModelSpec* base_of(std::string_view kind) {
  constexpr std::pair<std::string_view, std::string_view> kBases[] = {
      {"gpt", "gpt2-124m"}, {"llama", "llama2-7b"}, {"mixtral", "mixtral-8x7b"}, {"vit", "vit-b"}, {"mlp", "mlp"}};
  for (const auto& [of, base] : kBases)
    if (kind == of) return find_published(base);
  return nullptr;
}

std::string keys_of(const Values& values) {
  std::string keys;
  for (const auto& entry : values) keys += (keys.empty() ? "" : ", ") + entry.first;
  return keys;
}

Error unknown_model(std::string_view name) {
  std::string names;
  for (const auto& entry : published()) names += std::string(entry.first) + ", ";
  return {ErrorKind::usage, "there is no model `" + std::string(name) + "`; there are " + names +
                                "and gpt:, llama:, mixtral:, vit: and mlp: followed by key=value,… such as "
                                "gpt:layers=4,hidden=256,heads=4"};
}

Result<std::int64_t> parse_value(std::string_view key, std::string_view text) {
  const std::int64_t least = key == "tied" ? 0 : 1, most = key == "tied" ? 1 : kLargest;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return value;
  return Error{ErrorKind::usage, "model option " + std::string(key) + "=" + std::string(text) +
                                     " is not a whole number from " + std::to_string(least) + " to " +
                                     std::to_string(most)};
}

Result<void> parse_part(std::string_view part, const std::string& kind, const Values& known, Values& spelled) {
  const auto equals = part.find('=');
  const std::string key(part.substr(0, equals));
  if (equals == std::string_view::npos || !known.contains(key))
    return Error{ErrorKind::usage, "model part `" + std::string(part) + "` was not understood; " + kind +
                                       ": takes key=value with the keys " + keys_of(known)};
  CASTOR_ASSIGN(spelled[key], parse_value(key, part.substr(equals + 1)));
  return {};
}

Result<Values> parse_parts(std::string_view text, const ModelSpec& base) {
  Values spelled;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    CASTOR_TRY(parse_part(part, base.kind, base.values, spelled));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
  return spelled;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : published()) names.emplace_back(entry.first);
  return names;
}

Result<ModelSpec> parse_model_name(std::string_view name) {
  if (const ModelSpec* const found = find_published(name)) return *found;
  const auto colon = name.find(':');
  const ModelSpec* base = base_of(name.substr(0, colon));
  if (base == nullptr) return unknown_model(name);
  CASTOR_ASSIGN(Values values, parse_parts(colon == std::string_view::npos ? "" : name.substr(colon + 1), *base));
  for (const auto& [key, value] : base->values)
    if (key != "seq" && !(key == "features" && values.contains("hidden"))) values.emplace(key, value);
  if (base->kind == "mlp") values.emplace("features", values.at("hidden"));
  return ModelSpec{base->kind, std::move(values)};
}

}  // namespace castor
