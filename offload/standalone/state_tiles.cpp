// SPDX-License-Identifier: Apache-2.0
#include "state_tiles.h"

#include <cstring>
#include <utility>

namespace castor {

UpdateArrays TileLayout::arrays(std::byte* states, std::uint64_t n, void* weight) const {
  UpdateArrays found;
  found.n = n, found.weight = weight, found.weight_dtype = weights;
  found.exp_avg = std::exchange(states, states + 4 * n);
  if (keeps_exp_avg_sq) found.exp_avg_sq = std::exchange(states, states + 4 * n);
  if (splits())
    found.master_low = reinterpret_cast<std::uint16_t*>(states);
  else
    found.master = static_cast<float*>(keeps_master() ? static_cast<void*>(states) : weight);
  return found;
}

void TileLayout::begin(const UpdateArrays& arrays) const {
  std::memset(arrays.exp_avg, 0, 4 * arrays.n);
  if (arrays.exp_avg_sq != nullptr) std::memset(arrays.exp_avg_sq, 0, 4 * arrays.n);
  if (splits()) std::memset(arrays.master_low, 0, 2 * arrays.n);
  if (keeps_master()) widen_weights(arrays.weight, weights, arrays.master, arrays.n);
}

void TileLayout::follow(const UpdateArrays& arrays) const {
  if (!keeps_master()) return;
  const auto* const weight = static_cast<const std::uint16_t*>(arrays.weight);
  for (std::uint64_t i = 0; i < arrays.n; ++i)
    if (round_to_f16(arrays.master[i]) != weight[i]) arrays.master[i] = f16_to_float(weight[i]);
}

Result<std::unique_ptr<TileWindow>> TileWindow::make(const std::vector<std::string>& folders,
                                                     std::uint64_t tile_bytes) {
  TensorStoreOptions options;
  options.folders = folders;
  CASTOR_ASSIGN(auto store, TensorStore::open(options));
  std::unique_ptr<TileWindow> window(new TileWindow(std::move(store)));
  for (std::size_t i = 0; i < kSlots; ++i) {
    CASTOR_ASSIGN(Buffer memory, Buffer::allocate(window->host_, tile_bytes));
    window->slots_.push_back({std::move(memory), {}, {}});
  }
  return window;
}

Result<void> TileWindow::ask(const StateTile& tile, std::uint64_t n_bytes) {
  Slot& next = slot(n_asked_);
  CASTOR_TRY(next.done.wait());
  next.view = next.memory.view().part(0, n_bytes);
  next.done = tile.has_states ? store_->get(*tile.key, next.view) : Event();
  ++n_asked_;
  return {};
}

Result<BufferView> TileWindow::take() {
  CASTOR_TRY(slot(n_taken_).done.wait());
  return slot(n_taken_).view;
}

void TileWindow::give_up() {
  (void)store_->drain();
  for (Slot& slot : slots_) slot.done = Event();
  n_taken_ = n_asked_;
}

void TileWindow::put_back(const StateTile& tile, bool changed) {
  Slot& taken = slot(n_taken_++);
  taken.done = changed ? store_->put(*tile.key, taken.view) : Event();
}

}  // namespace castor
