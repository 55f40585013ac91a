// SPDX-License-Identifier: Apache-2.0
#include "early_updates.h"

#include <algorithm>

namespace castor {

EarlyUpdates::EarlyUpdates(const ChunkLayout& layout)
    : layout_(layout), tensors_(layout.tensors.size()), chunks_(layout.chunks.size()) {}

void EarlyUpdates::expect_one_each() {
  assumes_ = true;
  for (Tensor& tensor : tensors_) tensor.n_expected = 1;
  for (const PayloadId id : chunks_.ids()) chunks_[id].known = layout_.chunks[id].trainable;
}

void EarlyUpdates::announce() {
  announced_ = true;
  complete_.clear();
  for (Tensor& tensor : tensors_) tensor.n_landed = 0;
  for (const PayloadId id : chunks_.ids()) {
    chunks_[id].n_missing = static_cast<std::uint32_t>(layout_.chunks[id].tensors.size());
    chunks_[id].last_landed = chunks_[id].last_used = 0;
  }
}

void EarlyUpdates::landed(TensorId tensor) {
  Tensor& of = tensors_.at(tensor);
  Chunk& chunk = chunks_[layout_.tensors[tensor].chunk];
  ++of.n_landed;
  if (of.n_landed == of.n_expected && --chunk.n_missing == 0 && chunk.known && !chunk.used_after)
    complete_.push_back(layout_.tensors[tensor].chunk);
  if (of.n_landed == of.n_expected + 1) ++chunk.n_missing;  // more than in the step before: the count is unknown
  chunk.last_landed = ++n_happened_;
}

void EarlyUpdates::used(PayloadId chunk) { chunks_.at(chunk).last_used = ++n_happened_; }

std::vector<PayloadId> EarlyUpdates::ready() const {
  std::vector<PayloadId> found;
  for (const PayloadId id : complete_)
    if (chunks_[id].n_missing == 0 && !chunks_[id].updated) found.push_back(id);
  return found;
}

void EarlyUpdates::abandon() {
  announced_ = false;
  complete_.clear();
}

void EarlyUpdates::end_step() {
  assumes_ = false;
  for (const PayloadId id : chunks_.ids()) {
    Chunk& chunk = chunks_[id];
    chunk.updated = false;
    const auto& tensors = layout_.chunks[id].tensors;
    const auto has_landed = [this](TensorId tensor) { return tensors_[tensor].n_landed > 0; };
    chunk.known = announced_ && layout_.chunks[id].trainable && std::all_of(tensors.begin(), tensors.end(), has_landed);
    chunk.used_after = chunk.last_used > chunk.last_landed;
  }
  for (Tensor& tensor : tensors_) tensor.n_expected = announced_ ? tensor.n_landed : 0;
  abandon();
}

}  // namespace castor
