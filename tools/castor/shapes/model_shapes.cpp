// SPDX-License-Identifier: Apache-2.0
#include "model_shapes.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace castor::shapes {
namespace {

using Numel = std::uint64_t;

std::string in_block(std::uint32_t layer, const char* unit) { return "blocks." + std::to_string(layer) + "." + unit; }

struct GptSizes {
  std::uint32_t layers;
  Numel hidden;
};

/// Learned positions, biases, and a head that shares the embedding's weight.
Model gpt2(const GptSizes& sizes) {
  constexpr Numel kVocab = 50257, kSeq = 1024;
  const Numel h = sizes.hidden;
  Model made{"", {{"wte", {kVocab * h}}, {"wpe", {kSeq * h}}}, sizes.layers, static_cast<std::uint32_t>(h), 0};
  for (std::uint32_t i = 0; i < sizes.layers; ++i) {
    made.units.push_back({in_block(i, "ln_1"), {h, h}});
    made.units.push_back({in_block(i, "attn.qkv"), {3 * h * h, 3 * h}});
    made.units.push_back({in_block(i, "attn.proj"), {h * h, h}});
    made.units.push_back({in_block(i, "ln_2"), {h, h}});
    made.units.push_back({in_block(i, "mlp.fc"), {4 * h * h, 4 * h}});
    made.units.push_back({in_block(i, "mlp.proj"), {4 * h * h, h}});
  }
  made.units.push_back({"ln_f", {h, h}});
  return made;
}

struct LlamaSizes {
  std::uint32_t layers;
  Numel hidden, ffn, vocab;
  Numel kv_share;     ///< query heads per key head
  Numel experts = 0;  ///< 0 = one feed-forward part for all tokens
};

/// RMS norms, SwiGLU, grouped queries, no biases, a head of its own; with experts a router before them.
Model llama(const LlamaSizes& sizes) {
  const Numel h = sizes.hidden, kv = h / sizes.kv_share;
  Model made{"", {{"embed", {sizes.vocab * h}}}, sizes.layers, static_cast<std::uint32_t>(h), 0};
  const auto feed_forward = [&](const std::string& prefix) {
    for (const char* part : {"gate", "up", "down"}) made.units.push_back({prefix + part, {h * sizes.ffn}});
  };
  for (std::uint32_t i = 0; i < sizes.layers; ++i) {
    made.units.push_back({in_block(i, "attn_norm"), {h}});
    made.units.push_back({in_block(i, "attn.q"), {h * h}});
    made.units.push_back({in_block(i, "attn.k"), {h * kv}});
    made.units.push_back({in_block(i, "attn.v"), {h * kv}});
    made.units.push_back({in_block(i, "attn.o"), {h * h}});
    made.units.push_back({in_block(i, "mlp_norm"), {h}});
    if (sizes.experts > 0) made.units.push_back({in_block(i, "router"), {h * sizes.experts}});
    for (Numel e = 0; e < std::max<Numel>(sizes.experts, 1); ++e)
      feed_forward(in_block(i, sizes.experts > 0 ? ("expert." + std::to_string(e) + ".").c_str() : "mlp."));
  }
  made.units.push_back({"norm", {h}});
  made.units.push_back({"head", {sizes.vocab * h}});
  made.head_unit = static_cast<std::uint32_t>(made.units.size() - 1);
  return made;
}

struct VitSizes {
  std::uint32_t layers;
  Numel hidden, ffn, patch;
};

/// Images of 224 × 224 in three colours, a class token, 1000 classes.
Model vit(const VitSizes& sizes) {
  constexpr Numel kImage = 224, kColours = 3, kClasses = 1000;
  const Numel h = sizes.hidden, n_patches = (kImage / sizes.patch) * (kImage / sizes.patch);
  Model made{"",
             {{"patches", {kColours * sizes.patch * sizes.patch * h, h}}, {"tokens", {h, (n_patches + 1) * h}}},
             sizes.layers,
             static_cast<std::uint32_t>(h),
             0};
  for (std::uint32_t i = 0; i < sizes.layers; ++i) {
    made.units.push_back({in_block(i, "ln_1"), {h, h}});
    made.units.push_back({in_block(i, "attn.qkv"), {3 * h * h, 3 * h}});
    made.units.push_back({in_block(i, "attn.proj"), {h * h, h}});
    made.units.push_back({in_block(i, "ln_2"), {h, h}});
    made.units.push_back({in_block(i, "mlp.fc"), {h * sizes.ffn, sizes.ffn}});
    made.units.push_back({in_block(i, "mlp.proj"), {h * sizes.ffn, h}});
  }
  made.units.push_back({"ln", {h, h}});
  made.units.push_back({"head", {h * kClasses, kClasses}});
  made.head_unit = static_cast<std::uint32_t>(made.units.size() - 1);
  return made;
}

struct Entry {
  const char* name;
  std::function<Model()> make;
};

/// Sizes: GPT-2, Radford et al. 2019, table 2, and the 10b and 20b of Colossal-AI's Gemini benchmark; LLaMA-2, Touvron et
/// al. 2023; LLaMA-3, Grattafiori et al. 2024, table 3; Mixtral, Jiang et al. 2024, table 1; ViT, Dosovitskiy et al.
/// 2021, table 1.
const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
      {"gpt2-124m",
       [] {
         return gpt2({12, 768});
       }},
      {"gpt2-355m",
       [] {
         return gpt2({24, 1024});
       }},
      {"gpt2-774m",
       [] {
         return gpt2({36, 1280});
       }},
      {"gpt2-1.5b",
       [] {
         return gpt2({48, 1600});
       }},
      {"gpt2-10b",
       [] {
         return gpt2({50, 4096});
       }},
      {"gpt2-20b",
       [] {
         return gpt2({25, 8192});
       }},
      {"llama2-7b",
       [] {
         return llama({32, 4096, 11008, 32000, 1});
       }},
      {"llama2-13b",
       [] {
         return llama({40, 5120, 13824, 32000, 1});
       }},
      {"llama2-70b",
       [] {
         return llama({80, 8192, 28672, 32000, 8});
       }},
      {"llama3-8b",
       [] {
         return llama({32, 4096, 14336, 128256, 4});
       }},
      {"llama3-70b",
       [] {
         return llama({80, 8192, 28672, 128256, 8});
       }},
      {"mixtral-8x7b",
       [] {
         return llama({32, 4096, 14336, 32000, 4, 8});
       }},
      {"vit-b",
       [] {
         return vit({12, 768, 3072, 16});
       }},
      {"vit-l",
       [] {
         return vit({24, 1024, 4096, 16});
       }},
      {"vit-h",
       [] {
         return vit({32, 1280, 5120, 14});
       }},
  };
  return entries;
}

}  // namespace

std::uint64_t Model::n_params() const {
  std::uint64_t total = 0;
  for (const Unit& unit : units) total = std::accumulate(unit.numels.begin(), unit.numels.end(), total);
  return total;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& entry : table()) names.emplace_back(entry.name);
  return names;
}

Result<Model> model(std::string_view name) {
  const auto found =
      std::find_if(table().begin(), table().end(), [name](const Entry& entry) { return name == entry.name; });
  if (found != table().end()) {
    Model made = found->make();
    made.name = found->name;
    return made;
  }
  std::string names;
  for (const Entry& entry : table()) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return Error{ErrorKind::usage, "there is no model '" + std::string(name) + "'; there are " + names};
}

}  // namespace castor::shapes
