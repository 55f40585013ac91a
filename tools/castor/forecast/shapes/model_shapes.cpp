// SPDX-License-Identifier: Apache-2.0
#include "model_shapes.h"

#include <algorithm>
#include <numeric>
#include <variant>

#include "spelled_gpt.h"

namespace castor::shapes {
namespace {

using Numel = std::uint64_t;

std::string in_block(Numel layer, const char* unit) { return "blocks." + std::to_string(layer) + "." + unit; }

/// A pre-norm block with biases: one norm and one half each for attention and the feed-forward part.
void add_block(Model& model, Numel layer) {
  const Numel h = model.hidden, ffn = model.ffn;
  model.units.push_back({in_block(layer, "ln_1"), {h, h}});
  model.units.push_back({in_block(layer, "attn.qkv"), {3 * h * h, 3 * h}, 1, /*attends=*/true});
  model.units.push_back({in_block(layer, "attn.proj"), {h * h, h}});
  model.units.push_back({in_block(layer, "ln_2"), {h, h}});
  model.units.push_back({in_block(layer, "mlp.fc"), {h * ffn, ffn}});
  model.units.push_back({in_block(layer, "mlp.proj"), {h * ffn, h}});
}

/// Adds the blocks by `add(model, layer)`.
template <typename Add>
void add_blocks(Model& model, const Add& add) {
  model.first_block = id_at<UnitId>(model.units.size());
  for (Numel layer = 0; layer < model.layers; ++layer) add(model, layer);
  model.units_per_block = static_cast<std::uint32_t>((model.units.size() - index(model.first_block)) / model.layers);
}

/// Elements that a block of GPT-2 or ViT keeps: the inputs of norms (2 h), of qkv, attention (3 h), proj and fc (6 h
/// together), and the inputs of the nonlinearity and of the layer after it.
Numel kept_with_biases(Numel h, Numel ffn) { return 8 * h + 2 * ffn; }

/// Learned positions, biases, and a head with the embedding's weight or its own.
Model make(const GptSizes& sizes) {
  const Numel h = sizes.hidden;
  Model made;
  made.units = {{"wte", {sizes.vocab * h}, 0}, {"wpe", {sizes.positions * h}, 0}};
  made.layers = sizes.layers, made.hidden = h, made.classes = sizes.vocab;
  made.ffn = 4 * h, made.kept_by_block = kept_with_biases(h, made.ffn);
  made.most_tokens = sizes.positions;
  add_blocks(made, [](Model& model, Numel layer) { add_block(model, layer); });
  made.units.push_back({"ln_f", {h, h}});
  if (sizes.tied)
    made.units.push_back({"head", {}, 1, false, /*shares=*/UnitId{0}});
  else
    made.units.push_back({"head", {sizes.vocab * h}});
  return made;
}

struct LlamaSizes {
  Numel layers, hidden, ffn, vocab;
  Numel kv_share;     ///< query heads per key head
  Numel experts = 0;  ///< 0 = one feed-forward part for all tokens
};

constexpr Numel kExpertsTaken = 2;

void add_feed_forward(Model& model, const std::string& prefix, Numel numel, double token_share) {
  for (const char* part : {"gate", "up", "down"}) model.units.push_back({prefix + part, {numel}, token_share});
}

void add_block(Model& model, Numel layer, const LlamaSizes& sizes) {
  const Numel h = sizes.hidden, kv = h / sizes.kv_share;
  model.units.push_back({in_block(layer, "attn_norm"), {h}});
  model.units.push_back({in_block(layer, "attn.q"), {h * h}});
  model.units.push_back({in_block(layer, "attn.k"), {h * kv}});
  model.units.push_back({in_block(layer, "attn.v"), {h * kv}, 1, /*attends=*/true});
  model.units.push_back({in_block(layer, "attn.o"), {h * h}});
  model.units.push_back({in_block(layer, "mlp_norm"), {h}});
  if (sizes.experts == 0) return add_feed_forward(model, in_block(layer, "mlp."), h * sizes.ffn, 1);
  model.units.push_back({in_block(layer, "router"), {h * sizes.experts}});
  const double share = static_cast<double>(kExpertsTaken) / static_cast<double>(sizes.experts);
  for (Numel e = 0; e < sizes.experts; ++e)
    add_feed_forward(model, in_block(layer, "expert.") + std::to_string(e) + ".", h * sizes.ffn, share);
}

/// RMS norms, SwiGLU, grouped queries, no biases, a separate head; with experts a router before them, and each token
/// takes two.
Model make(const LlamaSizes& sizes) {
  const Numel h = sizes.hidden;
  Model made;
  made.units = {{"embed", {sizes.vocab * h}, 0}};
  made.layers = sizes.layers, made.hidden = h, made.classes = sizes.vocab;
  made.ffn = sizes.ffn * (sizes.experts > 0 ? kExpertsTaken : 1);
  // The inputs of norms, of q, k and v, of o and of the feed-forward part (5 h), queries, keys and values, and of
  // SwiGLU both products, the nonlinearity's result and its product with the other.
  made.kept_by_block = 6 * h + 2 * (h / sizes.kv_share) + 4 * made.ffn;
  add_blocks(made, [&sizes](Model& model, Numel layer) { add_block(model, layer, sizes); });
  made.units.push_back({"norm", {h}});
  made.units.push_back({"head", {sizes.vocab * h}});
  return made;
}

struct VitSizes {
  Numel layers, hidden, ffn, patch;
};

/// Images of 224 × 224 in three colours; a class token, the only one that reaches the head; 1000 classes.
Model make(const VitSizes& sizes) {
  constexpr Numel kImage = 224, kColours = 3, kClasses = 1000;
  const Numel h = sizes.hidden, n_patches = (kImage / sizes.patch) * (kImage / sizes.patch);
  const double share = 1 / static_cast<double>(n_patches + 1);
  Model made;
  made.units = {{"patches", {kColours * sizes.patch * sizes.patch * h, h}, 1 - share},
                {"tokens", {h, (n_patches + 1) * h}, 0}};
  made.layers = sizes.layers, made.hidden = h, made.classes = kClasses;
  made.ffn = sizes.ffn, made.kept_by_block = kept_with_biases(h, sizes.ffn);
  made.causal = false, made.image_tokens = n_patches + 1;
  add_blocks(made, [](Model& model, Numel layer) { add_block(model, layer); });
  made.units.push_back({"ln", {h, h}});
  made.units.push_back({"head", {h * kClasses, kClasses}, share});
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

Result<Model> model(std::string_view name, std::uint64_t seq) {
  const std::string_view kind = name.substr(0, name.find(':'));
  if (kind == "gpt") {
    CASTOR_ASSIGN(const GptSizes sizes, parse_gpt(name.substr(std::min(name.size(), kind.size() + 1)), seq));
    Model made = make(sizes);
    made.name = name;
    return made;
  }
  std::string names;
  for (const Entry& entry : kTable) {
    if (name == entry.name) {
      Model made = std::visit([](const auto& sizes) { return make(sizes); }, entry.sizes);
      made.name = entry.name;
      return made;
    }
    names += std::string(entry.name) + ", ";
  }
  return Error{ErrorKind::usage, "there is no model '" + std::string(name) + "'; there are " + names +
                                     "and gpt: followed by key=value,… such as gpt:layers=4,hidden=256,heads=4"};
}

}  // namespace castor::shapes
