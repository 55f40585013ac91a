// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <castor/io/durability.h>
#include <castor/io/io_engine.h>
#include <castor/memory/budget.h>
#include <castor/memory/buffer.h>
#include <castor/memory/event.h>
#include <castor/memory/result.h>

namespace castor {

class FolderOps;

struct TensorStoreOptions {
  std::vector<std::string> folders;  ///< one or more; values are striped over them by how fast they are
  Budget* budget = nullptr;          ///< borrowed; the nvme tier that the extents count against; null = no limit
  EngineChoice engine = EngineChoice::best;
  bool checksums = true;  ///< xxh3-64 per block, made when it is written and verified when it is read
  Durability durability = Durability::scratch;
  /// Of a durable store: nothing in its folders is written, so that others may read it at the same time, and from a
  /// mount or a user that may not write.
  bool read_only = false;
  /// Bytes of one request, a power of two from 4 KiB to 1 GiB; requests that a drive has at a time, 1 to 1024; threads
  /// of the threads engine, 1 to 256. An empty option takes the value that `castor bench io --tune` stored for the
  /// first folder's drive, else 1 MiB, 32 and 4.
  std::optional<std::uint64_t> block_bytes;
  std::optional<std::size_t> depth;
  std::optional<unsigned> n_threads;
  bool sqpoll = false;                   ///< see IoEngineOptions
  bool iopoll = false;                   ///< see IoEngineOptions
  std::chrono::milliseconds timeout{0};  ///< the longest time of one request, a commit's syncs too; 0 = no limit
};

struct TensorStoreStats {
  std::uint64_t bytes_read = 0;            ///< moved from the drive since opening, padding included
  std::uint64_t bytes_written = 0;         ///< moved to the drive since opening, padding included
  std::uint64_t allocated_bytes = 0;       ///< extents held now
  std::uint64_t peak_allocated_bytes = 0;  ///< the most ever held at once
};

/// Values of any size under integer keys, on one or more drives, moved while the caller computes.
///
/// Order: per key, the store behaves as if it ran the calls in their order. A get sees the put before it, also one
/// still in flight; two puts run one after the other; gets of one key run together. Different keys have no order among
/// each other. Integrity: every outcome is checked, and with checksums each block that is read is compared with the
/// bytes that were put (XXH3; Y. Collet, xxHash). A value whose put failed is gone, never half there: its gets repeat
/// that error. Buffers: bytes at a multiple of 4096 move without a copy; a last part shorter than 4096 bytes goes
/// through a padded page of the store's own, so that no neighbour is touched. Bytes at other addresses are copied block
/// by block. Once a key has its room, put and get allocate nothing.
///
/// Durability (docs/storage.md): with Durability::commit the store keeps its values in files of the folders, and a put
/// never overwrites a value of the last commit: it goes to a second slot. commit(step) makes all values put before it
/// durable in one instant; whenever the machine stops, opening the store again finds the values of the last commit
/// whole, or of the one under way, never a mixture.
///
/// Threads: any thread may call anything; no call waits for a drive except remove, the drains, and calls whose comments
/// say so. Each drive has an engine; its thread also makes the checksums that the caller of put does not pass, and
/// verifies the blocks it reads.
class TensorStore {
 public:
  /// Opens the store in `options.folders`. Scratch: an unnamed file in each. Commit: the store that the folders hold,
  /// or a new one; leftovers of runs that died are removed. To read only: the store that they hold.
  /// Errors: io, where a folder or an engine cannot be used, another process has the store open, or the store's files
  /// are damaged; usage, where no folder is named, options are out of range, or there is no store to read.
  static Result<std::unique_ptr<TensorStore>> open(const TensorStoreOptions& options);
  /// The same with the caller's engine for all folders (`options.engine` is ignored).
  static Result<std::unique_ptr<TensorStore>> open(const TensorStoreOptions& options, std::unique_ptr<IoEngine> engine);
  /// The same with the caller's folder operations, for tests that make them fail.
  static Result<std::unique_ptr<TensorStore>> open(TensorStoreOptions options, std::unique_ptr<IoEngine> engine,
                                                   std::unique_ptr<FolderOps> folder_ops);
  /// Blocks until everything in flight has ended; after abandon() that is when no kernel uses its bytes any more.
  ~TensorStore();
  TensorStore(const TensorStore&) = delete;
  TensorStore& operator=(const TensorStore&) = delete;

  /// Stores `bytes` under `key`, in place of an earlier value. They must stay unchanged until the event.
  ///
  /// The put takes room when the key is new or its size changes (in whole 4096 bytes), and the file systems set it
  /// aside then. Errors, in the event and once more in drain: does_not_fit, with the figures, where the budget is too
  /// small; io, where the folders are full or a transfer fails. Either way the key has no value then.
  ///
  /// `checksums`: block_checksum of each block, from a caller that made them while the bytes were in a cache; the
  /// blocks that gets read are compared with these. Empty: the store makes them. Requires: else as many as block_ends
  /// has, and that the store was not opened to read only (ContractViolation).
  Event put(std::uint64_t key, BufferView bytes, std::span<const std::uint64_t> checksums = {});
  /// The ends of the blocks of a value of `n_bytes`, which have a checksum each; empty in a store without checksums.
  std::vector<std::uint64_t> block_ends(std::uint64_t n_bytes) const;
  static std::uint64_t block_checksum(BufferView block);

  /// Fills `bytes` with the value of `key`; their contents are undefined until the event, and after an error.
  /// Errors, in the event: usage, where the key holds nothing or a value of another size; io, where a transfer fails or
  /// the bytes are not those that were put; the error of the put, where that failed.
  Event get(std::uint64_t key, BufferView bytes);

  /// Removes the value of `key` and gives its room back to budget and file system (where a commit holds it, after the
  /// next commit). Blocks until no operation of `key` and no commit is in flight. A key that holds nothing is no error.
  void remove(std::uint64_t key);

  /// Blocks until no put is in flight. Errors: the first error of a put since the last call.
  Result<void> drain_puts();
  /// Blocks until no get is in flight; their errors are in their events.
  void drain_gets();
  /// Both.
  Result<void> drain();

  /// Makes all puts and removes before this call durable, as `step`; the event completes when they are.
  ///
  /// Later puts wait for the commit; gets do not. Blocks while an earlier commit is under way. Errors, in the event:
  /// io, where a drive fails; the put's own error, where a key has no value because its put failed; then the last
  /// commit stands. After a failed sync the contents of the drive are unknown: the store takes no more puts until it is
  /// opened again.
  /// Requires: Durability::commit, and not to read only (ContractViolation).
  Event commit(std::uint64_t step);
  /// The step of the last commit that is durable; nothing before the first.
  std::optional<std::uint64_t> committed_step() const;
  /// The keys that hold a value, ascending, and the size of one. Errors: usage, where the key holds nothing.
  std::vector<std::uint64_t> keys() const;
  Result<std::uint64_t> value_bytes(std::uint64_t key) const;

  /// Gives up the puts and gets under way, and those that are started later: each ends with an error (io). Does not
  /// wait. Requests that no drive has ended at once, and the engines ask the kernel to cancel the others; an event is
  /// reached only when the kernel no longer uses its bytes. The kernel cannot cancel what a drive works on: where that
  /// drive never answers, its driver gives the requests up (NVMe: after nvme_core.io_timeout, 30 s unless set
  /// otherwise), and no process can have their memory back before. A commit under way is not given up.
  void abandon();

  /// Registers memory that many values will move from and to, which saves pinning it for each request; returns how many
  /// of its bytes the kernel took (the memlock limit bounds them). Requires: unregister_memory before they are freed.
  std::uint64_t register_memory(BufferView bytes);
  void unregister_memory(BufferView bytes);

  TensorStoreStats stats() const;
  std::string_view engine_name() const;
  /// The modes of the engine (IoEngine::details).
  std::string engine_details() const;
  /// Sentences about the speed of the store and its opening: the engine's fallback, folders without direct I/O,
  /// leftovers removed. Empty = all is well.
  std::vector<std::string> warnings() const;

 private:
  class Impl;
  explicit TensorStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace castor
