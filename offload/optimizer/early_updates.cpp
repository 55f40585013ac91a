// SPDX-License-Identifier: Apache-2.0
#include "early_updates.h"

#include <algorithm>

namespace castor {

EarlyUpdates::EarlyUpdates(const ChunkLayout& layout)
    : layout_(layout), tensors_(layout.tensors.size()), chunks_(layout.chunks.size()) {}

void EarlyUpdates::announce() {
  announced_ = true;
  complete_.clear();
  for (Tensor& tensor : tensors_) tensor.n_landed = 0;
  for (std::uint32_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i].n_missing = static_cast<std::uint32_t>(layout_.chunks[i].tensors.size());
    chunks_[i].last_landed = chunks_[i].last_used = 0;
  }
}

void EarlyUpdates::landed(std::uint32_t tensor) {
  Tensor& of = tensors_.at(tensor);
  Chunk& chunk = chunks_[layout_.tensors[tensor].chunk];
  ++of.n_landed;
  if (of.n_landed == of.n_expected && --chunk.n_missing == 0 && chunk.known && !chunk.used_after)
    complete_.push_back(layout_.tensors[tensor].chunk);
  if (of.n_landed == of.n_expected + 1) ++chunk.n_missing;  // more than in the step before: the count is unknown
  chunk.last_landed = ++n_happened_;
}

void EarlyUpdates::used(std::uint32_t chunk) { chunks_.at(chunk).last_used = ++n_happened_; }

std::vector<std::uint32_t> EarlyUpdates::ready() const {
  std::vector<std::uint32_t> found;
  for (const std::uint32_t i : complete_)
    if (chunks_[i].n_missing == 0 && !chunks_[i].updated) found.push_back(i);
  return found;
}

void EarlyUpdates::end_step() {
  for (std::uint32_t i = 0; i < chunks_.size(); ++i) {
    Chunk& chunk = chunks_[i];
    chunk.updated = false;
    const auto& tensors = layout_.chunks[i].tensors;
    chunk.known = announced_ && layout_.chunks[i].trainable &&
                  std::all_of(tensors.begin(), tensors.end(), [this](auto t) { return tensors_[t].n_landed > 0; });
    chunk.used_after = chunk.last_used > chunk.last_landed;
  }
  for (Tensor& tensor : tensors_) tensor.n_expected = announced_ ? tensor.n_landed : 0;
  announced_ = false;
  complete_.clear();
}

}  // namespace castor
