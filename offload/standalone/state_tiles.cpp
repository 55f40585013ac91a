// SPDX-License-Identifier: Apache-2.0
#include "state_tiles.h"

#include <utility>

namespace castor {

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
