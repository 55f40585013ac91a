// SPDX-License-Identifier: Apache-2.0
// The process that store_kill_test kills: store_kill_child ENGINE FOLDER FOLDER opens the durable store in the folders
// and continues from its last commit, step by step, until it is killed. It reports its progress on stdout, see
// KillMark.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <castor/io/tensor_store.h>

#include "files/folder_ops.h"
#include "kill_values.h"
#include "value_buffer.h"

namespace castor::test {
namespace {

/// Writes one message; one write to a pipe is atomic, so threads may write at once. Ends the child where the pipe has
/// no reader.
void tell(KillMark mark, std::uint64_t step) {
  char text[1 + sizeof step];
  text[0] = static_cast<char>(mark);
  std::memcpy(text + 1, &step, sizeof step);
  if (::write(STDOUT_FILENO, text, sizeof text) != sizeof text) std::_Exit(1);
}

/// Reports when a manifest is written.
class TellingFolderOps final : public FolderOps {
 public:
  Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) override {
    tell(KillMark::manifest, 0);
    return system_.write_file(path, bytes);
  }
  Result<std::optional<std::vector<std::byte>>> read_file(const std::string& path, std::uint64_t max_bytes) override {
    return system_.read_file(path, max_bytes);
  }
  Result<void> sync_file(const std::string& path) override { return system_.sync_file(path); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    tell(KillMark::rename, 0);
    return system_.rename(from, to);
  }
  Result<void> remove(const std::string& path) override { return system_.remove(path); }
  Result<void> sync_folder(const std::string& folder) override { return system_.sync_folder(folder); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return system_.list(folder); }

 private:
  SystemFolderOps system_;
};

using Buffers = std::vector<std::unique_ptr<ValueBuffer>>;

/// Requires: the puts from `buffers` have ended.
void change(TensorStore& store, std::uint64_t step, Buffers& buffers) {
  tell(KillMark::puts, step);
  buffers.clear();
  for (std::uint64_t key = 0; key < kKillKeys; ++key) {
    if (step > 1 && step_of_value(key, step) != step) continue;
    if (const auto n_bytes = kill_value_bytes(key, step)) {
      buffers.push_back(std::make_unique<ValueBuffer>(*n_bytes, key % 3));
      buffers.back()->fill(kill_seed(key, step_of_value(key, step)));
      store.put(key, buffers.back()->view());
    } else {
      store.remove(key);
    }
  }
}

void run(const std::string& engine, const std::vector<std::string>& folders) {
  Budget budget(Tier::nvme, 2 * kMiB);
  TensorStoreOptions options;
  options.folders = folders;
  options.budget = &budget;
  options.engine = parse_engine_choice(engine).value();
  options.durability = Durability::commit;
  options.block_bytes = kKillBlockBytes;
  options.depth = 8;
  const auto store = TensorStore::open(options, nullptr, std::make_unique<TellingFolderOps>()).value();
  std::uint64_t step = store->committed_step().value_or(0);
  tell(KillMark::opened, step);
  std::array<Buffers, 2> buffers;  // a commit under way ends the puts of its step; those of the next may be queued
  ++step;
  change(*store, step, buffers[step % 2]);
  while (true) {
    tell(KillMark::commit, step);
    const Event committed = store->commit(step);
    const bool waits = step % 3 == 0;
    if (waits) committed.wait().value();
    if (waits) tell(KillMark::committed, step);
    change(*store, step + 1, buffers[(step + 1) % 2]);
    committed.wait().value();
    if (!waits) tell(KillMark::committed, step);
    ++step;
  }
}

}  // namespace
}  // namespace castor::test

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  castor::test::run(argv[1], {argv[2], argv[3]});
}
