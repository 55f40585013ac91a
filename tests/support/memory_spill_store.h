// SPDX-License-Identifier: Apache-2.0
// A double for the tier below the host: keeps chunks in ordinary memory, and fails or delays on request.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include <castor/chunk/spill_store.h>

namespace castor {

class MemorySpillStore final : public SpillStore {
 public:
  Event write(ChunkId chunk, BufferView bytes, std::span<const std::uint64_t> checksums) override {
    ++n_writes;
    check(bytes, checksums);
    if (n_writes == fail_write) return failed("write");
    if (!hold_writes) return store(chunk, bytes), Event();
    held_.push_back({chunk, bytes, std::make_shared<HostEventState>()});
    return Event(held_.back().done);
  }

  Event read(ChunkId chunk, BufferView bytes) override {
    ++n_reads;
    if (n_reads == fail_read) return failed("read");
    const auto& kept = contents.at(chunk);
    if (kept.size() != bytes.n_bytes) throw ContractViolation("read of another size than written");
    std::memcpy(bytes.data, kept.data(), kept.size());
    return Event();
  }

  void forget(ChunkId chunk) override { contents.erase(chunk); }

  Result<void> check_room(std::uint64_t n_bytes, const std::string& label) const override {
    std::uint64_t used_bytes = 0;
    for (const auto& [chunk, kept] : contents) used_bytes += kept.size();
    if (used_bytes + n_bytes <= limit_bytes) return {};
    return Error{ErrorKind::does_not_fit, label + " has no room in the store"};
  }

  std::vector<std::uint64_t> block_ends(std::uint64_t n_bytes) const override {
    std::vector<std::uint64_t> ends;
    for (std::uint64_t at = 0; block_bytes > 0 && at < n_bytes;)
      ends.push_back(at = std::min(at + block_bytes, n_bytes));
    return ends;
  }
  /// The FNV-1a hash of the bytes.
  std::uint64_t checksum(BufferView block) const override {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (std::uint64_t i = 0; i < block.n_bytes; ++i)
      hash = (hash ^ static_cast<std::uint64_t>(block.data[i])) * 0x100000001b3;
    return hash;
  }

  /// The checksum of each block of `bytes`.
  std::vector<std::uint64_t> checksums_of(BufferView bytes) const {
    std::vector<std::uint64_t> made;
    std::uint64_t at = 0;
    for (const std::uint64_t end : block_ends(bytes.n_bytes)) {
      made.push_back(checksum(bytes.part(at, end - at)));
      at = end;
    }
    return made;
  }

  /// Lets the writes that hold_writes holds back copy their bytes now.
  void finish_writes() {
    for (Held& held : held_) {
      store(held.chunk, held.bytes);
      held.done->complete({});
    }
    held_.clear();
  }

  std::map<ChunkId, std::vector<std::byte>> contents;
  std::uint64_t limit_bytes = std::numeric_limits<std::uint64_t>::max();  ///< of all contents
  bool hold_writes = false;
  std::uint64_t block_bytes = 0;  ///< the size of a block that has a checksum; 0 = none has
  int n_writes = 0, n_reads = 0;
  int n_checked = 0, n_wrong = 0;     ///< writes with checksums, and those with wrong ones
  int fail_write = 0, fail_read = 0;  ///< the number of the call that fails, from 1; 0 = none

 private:
  struct Held {
    ChunkId chunk;
    BufferView bytes;
    std::shared_ptr<HostEventState> done;
  };

  void store(ChunkId chunk, BufferView bytes) { contents[chunk].assign(bytes.data, bytes.data + bytes.n_bytes); }
  void check(BufferView bytes, std::span<const std::uint64_t> checksums) {
    if (checksums.empty()) return;
    ++n_checked;
    const auto real = checksums_of(bytes);
    n_wrong += !std::equal(real.begin(), real.end(), checksums.begin(), checksums.end());
  }
  static Event failed(const char* what) {
    auto state = std::make_shared<HostEventState>();
    state->complete(Error{ErrorKind::io, std::string("scripted failure of a ") + what});
    return Event(state);
  }

  std::vector<Held> held_;
};

}  // namespace castor
