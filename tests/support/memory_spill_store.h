// SPDX-License-Identifier: Apache-2.0
// A double for the tier below the host: keeps chunks in ordinary memory, and fails or delays on request.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <castor/chunk/spill_store.h>

namespace castor {

class MemorySpillStore final : public SpillStore {
 public:
  Event write(std::uint32_t chunk, BufferView bytes) override {
    ++n_writes;
    if (n_writes == fail_write) return failed("write");
    if (!hold_writes) return store(chunk, bytes), Event();
    held_.push_back({chunk, bytes, std::make_shared<HostEventState>()});
    return Event(held_.back().done);
  }

  Event read(std::uint32_t chunk, BufferView bytes) override {
    ++n_reads;
    if (n_reads == fail_read) return failed("read");
    const auto& kept = contents.at(chunk);
    if (kept.size() != bytes.n_bytes) throw ContractViolation("read of another size than written");
    std::memcpy(bytes.data, kept.data(), kept.size());
    return Event();
  }

  void forget(std::uint32_t chunk) override { contents.erase(chunk); }

  /// Lets the writes held back by hold_writes take their bytes now.
  void finish_writes() {
    for (Held& held : held_) {
      store(held.chunk, held.bytes);
      held.done->complete({});
    }
    held_.clear();
  }

  std::map<std::uint32_t, std::vector<std::byte>> contents;
  bool hold_writes = false;
  int n_writes = 0, n_reads = 0;
  int fail_write = 0, fail_read = 0;  ///< the how-manieth call fails; 0 = none

 private:
  struct Held {
    std::uint32_t chunk;
    BufferView bytes;
    std::shared_ptr<HostEventState> done;
  };

  void store(std::uint32_t chunk, BufferView bytes) { contents[chunk].assign(bytes.data, bytes.data + bytes.n_bytes); }
  static Event failed(const char* what) {
    auto state = std::make_shared<HostEventState>();
    state->complete(Error{ErrorKind::io, std::string("scripted failure of a ") + what});
    return Event(state);
  }

  std::vector<Held> held_;
};

}  // namespace castor
