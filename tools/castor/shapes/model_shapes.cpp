// SPDX-License-Identifier: Apache-2.0
#include "model_shapes.h"

#include <numeric>
#include <variant>

namespace castor::shapes {
namespace {

using Numel = std::uint64_t;

std::string in_block(std::uint32_t layer, const char* unit) { return "blocks." + std::to_string(layer) + "." + unit; }

/// A pre-norm block with biases: one norm and one half each for attention and the feed-forward part.
void add_block(Model& model, std::uint32_t layer, Numel h, Numel ffn) {
  model.units.push_back({in_block(layer, "ln_1"), {h, h}});
  model.units.push_back({in_block(layer, "attn.qkv"), {3 * h * h, 3 * h}});
  model.units.push_back({in_block(layer, "attn.proj"), {h * h, h}});
  model.units.push_back({in_block(layer, "ln_2"), {h, h}});
  model.units.push_back({in_block(layer, "mlp.fc"), {h * ffn, ffn}});
  model.units.push_back({in_block(layer, "mlp.proj"), {h * ffn, h}});
}

struct GptSizes {
  std::uint32_t layers;
  Numel hidden;
};

/// Learned positions, biases, and a head that shares the embedding's weight.
Model make(const GptSizes& sizes) {
  constexpr Numel kVocab = 50257, kSeq = 1024;
  const Numel h = sizes.hidden;
  Model made{"", {{"wte", {kVocab * h}}, {"wpe", {kSeq * h}}}, sizes.layers, static_cast<std::uint32_t>(h), 0};
  for (std::uint32_t i = 0; i < sizes.layers; ++i) add_block(made, i, h, 4 * h);
  made.units.push_back({"ln_f", {h, h}});
  return made;
}

struct LlamaSizes {
  std::uint32_t layers;
  Numel hidden, ffn, vocab;
  Numel kv_share;     ///< query heads per key head
  Numel experts = 0;  ///< 0 = one feed-forward part for all tokens
};

void add_feed_forward(Model& model, const std::string& prefix, Numel numel) {
  for (const char* part : {"gate", "up", "down"}) model.units.push_back({prefix + part, {numel}});
}

void add_block(Model& model, std::uint32_t layer, const LlamaSizes& sizes) {
  const Numel h = sizes.hidden, kv = h / sizes.kv_share;
  model.units.push_back({in_block(layer, "attn_norm"), {h}});
  model.units.push_back({in_block(layer, "attn.q"), {h * h}});
  model.units.push_back({in_block(layer, "attn.k"), {h * kv}});
  model.units.push_back({in_block(layer, "attn.v"), {h * kv}});
  model.units.push_back({in_block(layer, "attn.o"), {h * h}});
  model.units.push_back({in_block(layer, "mlp_norm"), {h}});
  if (sizes.experts == 0) return add_feed_forward(model, in_block(layer, "mlp."), h * sizes.ffn);
  model.units.push_back({in_block(layer, "router"), {h * sizes.experts}});
  for (Numel e = 0; e < sizes.experts; ++e)
    add_feed_forward(model, in_block(layer, "expert.") + std::to_string(e) + ".", h * sizes.ffn);
}

/// RMS norms, SwiGLU, grouped queries, no biases, a head of its own; with experts a router before them.
Model make(const LlamaSizes& sizes) {
  const Numel h = sizes.hidden;
  Model made{"", {{"embed", {sizes.vocab * h}}}, sizes.layers, static_cast<std::uint32_t>(h), 0};
  for (std::uint32_t i = 0; i < sizes.layers; ++i) add_block(made, i, sizes);
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
Model make(const VitSizes& sizes) {
  constexpr Numel kImage = 224, kColours = 3, kClasses = 1000;
  const Numel h = sizes.hidden, n_patches = (kImage / sizes.patch) * (kImage / sizes.patch);
  Model made{"",
             {{"patches", {kColours * sizes.patch * sizes.patch * h, h}}, {"tokens", {h, (n_patches + 1) * h}}},
             sizes.layers,
             static_cast<std::uint32_t>(h),
             0};
  for (std::uint32_t i = 0; i < sizes.layers; ++i) add_block(made, i, h, sizes.ffn);
  made.units.push_back({"ln", {h, h}});
  made.units.push_back({"head", {h * kClasses, kClasses}});
  made.head_unit = static_cast<std::uint32_t>(made.units.size() - 1);
  return made;
}

struct Entry {
  const char* name;
  std::variant<GptSizes, LlamaSizes, VitSizes> sizes;
};

/// GPT-2: Radford et al. 2019, table 2, and the 10b and 20b of Colossal-AI's Gemini benchmark; LLaMA-2: Touvron et al.
/// 2023; LLaMA-3: Grattafiori et al. 2024, table 3; Mixtral: Jiang et al. 2024, table 1; ViT: Dosovitskiy et al. 2021,
/// table 1.
const Entry kTable[] = {
    {"gpt2-124m", GptSizes{12, 768}},
    {"gpt2-355m", GptSizes{24, 1024}},
    {"gpt2-774m", GptSizes{36, 1280}},
    {"gpt2-1.5b", GptSizes{48, 1600}},
    {"gpt2-10b", GptSizes{50, 4096}},
    {"gpt2-20b", GptSizes{25, 8192}},
    {"llama2-7b", LlamaSizes{32, 4096, 11008, 32000, 1}},
    {"llama2-13b", LlamaSizes{40, 5120, 13824, 32000, 1}},
    {"llama2-70b", LlamaSizes{80, 8192, 28672, 32000, 8}},
    {"llama3-8b", LlamaSizes{32, 4096, 14336, 128256, 4}},
    {"llama3-70b", LlamaSizes{80, 8192, 28672, 128256, 8}},
    {"mixtral-8x7b", LlamaSizes{32, 4096, 14336, 32000, 4, 8}},
    {"vit-b", VitSizes{12, 768, 3072, 16}},
    {"vit-l", VitSizes{24, 1024, 4096, 16}},
    {"vit-h", VitSizes{32, 1280, 5120, 14}},
};

}  // namespace

std::uint64_t Model::n_params() const {
  std::uint64_t total = 0;
  for (const Unit& unit : units) total = std::accumulate(unit.numels.begin(), unit.numels.end(), total);
  return total;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kTable) names.emplace_back(entry.name);
  return names;
}

Result<Model> model(std::string_view name) {
  std::string names;
  for (const Entry& entry : kTable) {
    if (name == entry.name) {
      Model made = std::visit([](const auto& sizes) { return make(sizes); }, entry.sizes);
      made.name = entry.name;
      return made;
    }
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Error{ErrorKind::usage, "there is no model '" + std::string(name) + "'; there are " + names};
}

}  // namespace castor::shapes
