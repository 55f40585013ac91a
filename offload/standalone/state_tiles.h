// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <castor/io/tensor_store.h>
#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>
#include <castor/standalone/tensor_optimizer.h>

namespace castor {

/// Elements of a tile on NVMe: 4 MiB of moments.
inline constexpr std::uint64_t kStandaloneTile = std::uint64_t{1} << 19;

/// A part of a tensor whose states are kept together, one array after the other.
struct StateTile {
  std::uint32_t tensor = 0;
  std::uint64_t first = 0, n = 0;    ///< elements
  Buffer states;                     ///< on the host; empty on NVMe
  std::optional<std::uint64_t> key;  ///< on NVMe
  bool has_states = false;           ///< false: moments are zeros, and the master is the weight

  /// Elements that there is room for: whole cache lines of each array.
  std::uint64_t kept() const { return align_up(n, 32); }
};

/// Tiles on NVMe, which pass through a window of memory in the order in which they are asked for.
class TileWindow {
 public:
  static Result<std::unique_ptr<TileWindow>> make(const std::vector<std::string>& folders, std::uint64_t tile_bytes);

  /// Tiles that may be asked for before the first of them is taken.
  static constexpr std::size_t kAhead = 5;

  /// Begins to read the states of `tile`, if it has some. Errors: those of an earlier write.
  Result<void> ask(const StateTile& tile, std::uint64_t n_bytes);
  /// Waits for the first tile that was asked for and not put back yet. Errors: io.
  Result<BufferView> take();
  /// Begins to write it, or to leave it as it was.
  void put_back(const StateTile& tile, bool changed);
  /// After an error: waits for all that is under way, and forgets what was asked for.
  void give_up();

  const TensorStore& store() const { return *store_; }

 private:
  struct Slot {
    Buffer memory;
    BufferView view;
    Event done;  ///< of the read, then of the write
  };
  static constexpr std::size_t kSlots = 8;

  explicit TileWindow(std::unique_ptr<TensorStore> store) : store_(std::move(store)) {}
  Slot& slot(std::uint64_t number) { return slots_[number % kSlots]; }

  HostResource host_;
  std::vector<Slot> slots_;
  std::unique_ptr<TensorStore> store_;  // ends before the slots, whose memory it uses
  std::uint64_t n_asked_ = 0, n_taken_ = 0;
};

}  // namespace castor
