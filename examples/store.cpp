// SPDX-License-Identifier: Apache-2.0
// The store alone: values on one or more drives, written and read while the program computes, and kept by commits.
//
//   g++ -std=c++20 -O2 store.cpp $(pkg-config --cflags --libs castor) -o store && ./store FOLDER [FOLDER…]
//
// The first run puts two values and commits them; a second run finds them again.
#include <castor/io/tensor_store.h>
#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>

#include <algorithm>
#include <cstdio>

using namespace castor;

namespace {

constexpr std::uint64_t kBytes = 8 << 20;

Result<void> put_both(TensorStore& store, const Buffer& memory) {
  std::fill_n(memory.data(), kBytes, std::byte{1});
  std::fill_n(memory.data() + kBytes, kBytes, std::byte{2});
  const Event first = store.put(1, memory.view().part(0, kBytes));
  const Event second = store.put(2, memory.view().part(kBytes, kBytes));
  CASTOR_TRY(first.wait());
  CASTOR_TRY(second.wait());
  return store.commit(1).wait();
}

Result<void> read_both(TensorStore& store, const Buffer& memory) {
  for (const std::uint64_t key : store.keys()) {
    CASTOR_TRY(store.get(key, memory.view().part(0, kBytes)).wait());
    const auto as_put = std::count(memory.data(), memory.data() + kBytes, static_cast<std::byte>(key));
    std::printf("value %d of commit %d: %d of %d bytes are those that were put\n", int(key),
                int(store.committed_step().value_or(0)), int(as_put), int(kBytes));
  }
  return {};
}

Result<void> run(const TensorStoreOptions& options) {
  HostResource host;
  CASTOR_ASSIGN(const Buffer memory, Buffer::allocate(host, 2 * kBytes));
  CASTOR_ASSIGN(const auto store, TensorStore::open(options));
  const bool is_new = !store->committed_step();
  std::printf("%s with %s\n", is_new ? "a new store" : "the store", std::string(store->engine_name()).c_str());
  return is_new ? put_both(*store, memory) : read_both(*store, memory);
}

}  // namespace

int main(int argc, char** argv) {
  const auto done = run({.folders = {argv + 1, argv + argc}, .durability = Durability::commit});
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done.ok() ? 0 : 1;
}
