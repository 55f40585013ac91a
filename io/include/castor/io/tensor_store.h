// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <castor/io/io_engine.h>
#include <castor/memory/budget.h>
#include <castor/memory/buffer.h>
#include <castor/memory/event.h>
#include <castor/memory/result.h>

namespace castor {

struct TensorStoreOptions {
  std::vector<std::string> folders;  ///< one or more; each new key goes where the fewest bytes lie
  Budget* budget = nullptr;          ///< borrowed; the nvme tier that the extents count against; null = no limit
  EngineChoice engine = EngineChoice::best;
  bool checksums = true;  ///< xxh3-64 per MiB, made on the way out and verified on the way in
};

struct TensorStoreStats {
  std::uint64_t bytes_read = 0;            ///< moved from the drive since opening, padding included
  std::uint64_t bytes_written = 0;         ///< moved to the drive since opening, padding included
  std::uint64_t allocated_bytes = 0;       ///< extents held now
  std::uint64_t peak_allocated_bytes = 0;  ///< the most ever held at once
};

/// Values of any size under integer keys, on one or more drives, moved while the caller computes.
///
/// Durability is `scratch`: the files have no names and nothing outlives the store, however the process ends.
///
/// Order: per key, everything happens as if in the order of the calls. A get sees the put before it, also one still in
/// flight; two puts land one after the other; gets of one key run together. Different keys have no order among each
/// other. Integrity: every outcome is checked, and with checksums each MiB that comes back is compared with what was
/// put (XXH3; Y. Collet, xxHash). A value whose put failed is gone, never half there: its gets repeat that error.
/// Buffers: bytes at a multiple of 4096 move without a copy; a last part shorter than 4096 bytes goes through a padded
/// page of the store's own, so that no neighbour is touched. Bytes elsewhere are copied MiB by MiB.
///
/// Threads: any thread may call anything. Two threads of the store do the work that is neither the caller's nor the
/// drive's: one makes checksums and starts requests, in the order of the calls; the other verifies what has arrived.
/// Neither waits for a drive unless the engine's queue is full.
class TensorStore {
 public:
  /// Creates one unnamed file per folder and an engine.
  /// Errors: io, what DirectFile::create_unnamed and make_io_engine say; usage, where no folder is named.
  static Result<std::unique_ptr<TensorStore>> open(const TensorStoreOptions& options);
  /// The same with an engine of the caller's (`options.engine` is not looked at).
  static Result<std::unique_ptr<TensorStore>> open(const TensorStoreOptions& options, std::unique_ptr<IoEngine> engine);
  /// Blocks until everything in flight has ended.
  ~TensorStore();
  TensorStore(const TensorStore&) = delete;
  TensorStore& operator=(const TensorStore&) = delete;

  /// Stores `bytes` under `key`, in place of what was there. They must stay unchanged until the event.
  ///
  /// Room is taken when a key first comes or changes its size (in whole 4096 bytes), and the file system sets it aside
  /// then. Errors, in the event and once more in drain: does_not_fit, with the figures, where the budget is too small;
  /// io, where a folder is full or a transfer fails. Either way the key is without a value then.
  Event put(std::uint64_t key, BufferView bytes);

  /// Fills `bytes` with the value of `key`; their contents are undefined until the event, and after an error.
  /// Errors, in the event: usage, where the key holds nothing or a value of another size; io, where a transfer fails or
  /// the bytes are not those that were put; the error of the put, where that failed.
  Event get(std::uint64_t key, BufferView bytes);

  /// Forgets `key` and gives its room back to budget and file system. Blocks until what is in flight for it has ended.
  /// A key that holds nothing is no error.
  void remove(std::uint64_t key);

  /// Blocks until nothing is in flight. Errors: the first of a put since the last drain.
  Result<void> drain();

  TensorStoreStats stats() const;
  std::string_view engine_name() const;
  /// Why the store is not as fast as it could be, a sentence each: the engine's fallback, folders without direct I/O.
  /// Empty = all is well.
  std::vector<std::string> warnings() const;

 private:
  class Impl;
  explicit TensorStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace castor
