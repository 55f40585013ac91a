// SPDX-License-Identifier: Apache-2.0
#include "model_spec.h"

#include <charconv>

namespace castor {
namespace {

using Values = std::map<std::string, std::int64_t>;

constexpr std::int64_t kLargest = 1 << 24;

/// The sizes of GPT-2 (Radford et al. 2019, table 2) with the vocabulary padded to a multiple of 128, and of ViT
/// (Dosovitskiy et al. 2021, table 1).
const std::map<std::string, ModelSpec, std::less<>>& named() {
  static const std::map<std::string, ModelSpec, std::less<>> table = {
      {"gpt2-124m",
       {"gpt", {{"layers", 12}, {"hidden", 768}, {"heads", 12}, {"vocab", 50304}, {"tied", 1}, {"seq", 1024}}}},
      {"gpt2-355m",
       {"gpt", {{"layers", 24}, {"hidden", 1024}, {"heads", 16}, {"vocab", 50304}, {"tied", 1}, {"seq", 1024}}}},
      {"gpt2-774m",
       {"gpt", {{"layers", 36}, {"hidden", 1280}, {"heads", 20}, {"vocab", 50304}, {"tied", 1}, {"seq", 1024}}}},
      {"gpt2-1.5b",
       {"gpt", {{"layers", 48}, {"hidden", 1600}, {"heads", 25}, {"vocab", 50304}, {"tied", 1}, {"seq", 1024}}}},
      {"vit-b", {"vit", {{"layers", 12}, {"hidden", 768}, {"heads", 12}, {"patch", 16}, {"classes", 1000}}}},
      {"vit-l", {"vit", {{"layers", 24}, {"hidden", 1024}, {"heads", 16}, {"patch", 16}, {"classes", 1000}}}},
      {"vit-h", {"vit", {{"layers", 32}, {"hidden", 1280}, {"heads", 16}, {"patch", 14}, {"classes", 1000}}}},
      {"mlp", {"mlp", {{"layers", 3}, {"hidden", 512}, {"features", 512}, {"classes", 10}}}},
  };
  return table;
}

/// The named model with the default values of a spelled-out one; null for an unknown kind.
const ModelSpec* base_of(std::string_view kind) {
  if (kind == "gpt") return &named().at("gpt2-124m");
  if (kind == "vit") return &named().at("vit-b");
  if (kind == "mlp") return &named().at("mlp");
  return nullptr;
}

template <typename Map>
std::string keys_of(const Map& map) {
  std::string keys;
  for (const auto& entry : map) keys += (keys.empty() ? "" : ", ") + entry.first;
  return keys;
}

Error unknown_model(std::string_view name) {
  return {ErrorKind::usage,
          "there is no model `" + std::string(name) + "`; there are " + keys_of(named()) +
              ", and gpt:, vit: and mlp: followed by key=value,… such as gpt:layers=4,hidden=256,heads=4"};
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

Result<ModelSpec> parse_model_name(std::string_view name) {
  if (const auto found = named().find(name); found != named().end()) return found->second;
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
