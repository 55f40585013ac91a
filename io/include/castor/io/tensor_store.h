// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <castor/io/io_engine.h>
#include <castor/memory/budget.h>
#include <castor/memory/buffer.h>
#include <castor/memory/event.h>
#include <castor/memory/result.h>

namespace castor {

class FolderOps;

/// What a store promises about the time after it.
enum class Durability : std::uint8_t {
  scratch,  ///< the files have no names; nothing outlives the store, however the process ends
  commit,   ///< what the last commit held is there again when the store is opened, however the process or machine ends
};

struct TensorStoreOptions {
  std::vector<std::string> folders;  ///< one or more; values are striped over them by how fast they are
  Budget* budget = nullptr;          ///< borrowed; the nvme tier that the extents count against; null = no limit
  EngineChoice engine = EngineChoice::best;
  bool checksums = true;  ///< xxh3-64 per block, made on the way out and verified on the way in
  Durability durability = Durability::scratch;
  /// What one request moves, a power of two from 4 KiB to 1 GiB; requests that a drive has at a time, 1 to 1024; threads
  /// of the threads engine, 1 to 256. What is left open is what `castor bench io --tune` remembered of the first
  /// folder's drive, else 1 MiB, 32 and 4.
  std::optional<std::uint64_t> block_bytes;
  std::optional<std::size_t> depth;
  std::optional<unsigned> n_threads;
  bool sqpoll = false;                   ///< see IoEngineOptions
  bool iopoll = false;                   ///< see IoEngineOptions
  std::chrono::milliseconds timeout{0};  ///< how long one request may take, a commit's syncs too; 0 = for ever
};

struct TensorStoreStats {
  std::uint64_t bytes_read = 0;            ///< moved from the drive since opening, padding included
  std::uint64_t bytes_written = 0;         ///< moved to the drive since opening, padding included
  std::uint64_t allocated_bytes = 0;       ///< extents held now
  std::uint64_t peak_allocated_bytes = 0;  ///< the most ever held at once
};

/// Values of any size under integer keys, on one or more drives, moved while the caller computes.
///
/// Order: per key, everything happens as if in the order of the calls. A get sees the put before it, also one still in
/// flight; two puts land one after the other; gets of one key run together. Different keys have no order among each
/// other. Integrity: every outcome is checked, and with checksums each block that comes back is compared with what was
/// put (XXH3; Y. Collet, xxHash). A value whose put failed is gone, never half there: its gets repeat that error.
/// Buffers: bytes at a multiple of 4096 move without a copy; a last part shorter than 4096 bytes goes through a padded
/// page of the store's own, so that no neighbour is touched. Bytes elsewhere are copied block by block. Once a key has
/// its room, put and get allocate nothing.
///
/// Durability (docs/storage.md): with Durability::commit the store lives in the folders' files, and a put never
/// overwrites what the last commit holds: it goes to a second slot. commit(step) makes everything put before it
/// durable in one instant; whenever the machine stops, opening the store again finds the values of the last commit
/// whole, or of the one under way, never a mixture.
///
/// Threads: any thread may call anything; no call waits for a drive but remove, the drains, and what their comments
/// name. Each drive has an engine; its thread also makes the checksums that a put does not bring, and verifies what it reads.
class TensorStore {
 public:
  /// Opens the store in `options.folders`. Scratch: an unnamed file in each. Commit: the store that the folders hold, or
  /// a new one; leftovers of runs that died are removed.
  /// Errors: io, where a folder or an engine cannot be used, another process has the store open, or what is there is
  /// damaged; usage, where no folder is named or options are out of range.
  static Result<std::unique_ptr<TensorStore>> open(const TensorStoreOptions& options);
  /// The same with an engine of the caller's for all folders (`options.engine` is not looked at).
  static Result<std::unique_ptr<TensorStore>> open(const TensorStoreOptions& options, std::unique_ptr<IoEngine> engine);
  /// The same with operations on folders of the caller's, for tests that fail them.
  static Result<std::unique_ptr<TensorStore>> open(TensorStoreOptions options, std::unique_ptr<IoEngine> engine,
                                                   std::unique_ptr<FolderOps> folder_ops);
  /// Blocks until everything in flight has ended.
  ~TensorStore();
  TensorStore(const TensorStore&) = delete;
  TensorStore& operator=(const TensorStore&) = delete;

  /// Stores `bytes` under `key`, in place of what was there. They must stay unchanged until the event.
  ///
  /// Room is taken when a key first comes or changes its size (in whole 4096 bytes), and the file systems set it aside
  /// then. Errors, in the event and once more in drain: does_not_fit, with the figures, where the budget is too small;
  /// io, where the folders are full or a transfer fails. Either way the key is without a value then.
  ///
  /// `checksums`: block_checksum of each of its blocks, by a caller who made them when the bytes were in a cache; what comes
  /// back is compared with these. Empty: the store makes them. Requires: else as many as block_ends has (ContractViolation).
  Event put(std::uint64_t key, BufferView bytes, std::span<const std::uint64_t> checksums = {});
  /// Where the blocks of a value of `n_bytes` end that have a checksum each; empty where the store has none.
  std::vector<std::uint64_t> block_ends(std::uint64_t n_bytes) const;
  static std::uint64_t block_checksum(BufferView block);

  /// Fills `bytes` with the value of `key`; their contents are undefined until the event, and after an error.
  /// Errors, in the event: usage, where the key holds nothing or a value of another size; io, where a transfer fails or
  /// the bytes are not those that were put; the error of the put, where that failed.
  Event get(std::uint64_t key, BufferView bytes);

  /// Forgets `key` and gives its room back to budget and file system (where a commit holds it, after the next one).
  /// Blocks until what is in flight for it has ended. A key that holds nothing is no error.
  void remove(std::uint64_t key);

  /// Blocks until no put is in flight. Errors: the first of a put since the last time.
  Result<void> drain_puts();
  /// Blocks until no get is in flight; their errors are in their events.
  void drain_gets();
  /// Both.
  Result<void> drain();

  /// Makes all that was put and removed before this call durable, as `step`. The event is reached when it is.
  ///
  /// Puts of later calls wait for it; gets do not. Blocks while an earlier commit is under way. Errors, in the event: io
  /// or the put's own, where a key has no value because its put failed, or a drive fails; then the last commit stands.
  /// After a failed sync nobody knows what is on the drive: then the store takes no more puts until it is opened again.
  /// Requires: Durability::commit (ContractViolation).
  Event commit(std::uint64_t step);
  /// The step of the last commit that is durable; nothing before the first.
  std::optional<std::uint64_t> committed_step() const;
  /// Which keys hold a value, ascending, and how large that is. Errors: usage, where the key holds nothing.
  std::vector<std::uint64_t> keys() const;
  Result<std::uint64_t> value_bytes(std::uint64_t key) const;

  /// Says that values will often move from and to these bytes, which saves pinning them for each request; returns how
  /// many of them the kernel took (the memlock limit bounds it). Requires: unregister_memory before they are freed.
  std::uint64_t register_memory(BufferView bytes);
  void unregister_memory(BufferView bytes);

  TensorStoreStats stats() const;
  std::string_view engine_name() const;
  /// How the engine works here (IoEngine::details).
  std::string engine_details() const;
  /// Why the store is not as fast as it could be, and what it found when it was opened, a sentence each: the engine's
  /// fallback, folders without direct I/O, leftovers removed. Empty = all is well.
  std::vector<std::string> warnings() const;

 private:
  class Impl;
  explicit TensorStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace castor
