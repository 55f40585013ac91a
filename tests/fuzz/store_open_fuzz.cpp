// SPDX-License-Identifier: Apache-2.0
// Opening a store on folders with any contents must give a store or an error, and a get of its keys bytes or an error.
// Values that the store then commits must be found when it is opened again.
//
// The input is read front to back: the state of the folders, then a manifest that is built of its figures (mostly
// well-formed, so that it passes the first checks) or is the input itself, then bytes to change in the manifest. The
// manifest's magic, length and checksum are always right; manifest_fuzz.cpp is about those.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <castor/io/tensor_store.h>
#include <castor/memory/budget.h>

#include "store/checksum.h"
#include "store/manifest.h"
#include "store/store_files.h"
#include "store/store_format.h"
#include "stripes/stripe_layout.h"
#include "support/manifest_seal.h"
#include "support/scratch_folder.h"
#include "support/test_buffer.h"

namespace {

namespace fs = std::filesystem;
using namespace castor;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kMostGetBytes = kMiB;

/// Reads the input front to back. Random numbers that follow from the input continue it, so that a short one suffices.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes)
      : bytes_(bytes),
        random_(std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {}

  std::uint64_t number(std::size_t n_bytes) {
    std::uint64_t value = 0;
    for (; n_bytes > 0; --n_bytes) value = value << 8 | next();
    return value;
  }
  std::uint64_t below(std::uint64_t n) { return number(1) % n; }
  /// Mostly a small number, at times any.
  std::uint64_t figure() {
    constexpr std::size_t kWidths[] = {1, 1, 1, 2, 2, 2, 3, 8};
    return number(kWidths[below(std::size(kWidths))]);
  }
  /// Returns fewer where the input ends.
  std::span<const std::byte> take(std::size_t n_bytes) {
    const auto taken = bytes_.first(std::min(n_bytes, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::uint64_t next() { return bytes_.empty() ? random_() >> 56 : std::to_integer<std::uint64_t>(take(1)[0]); }

  std::span<const std::byte> bytes_;
  std::mt19937_64 random_;
};

std::string data_name(std::uint64_t volume) { return "castor-0123456789abcdef-" + std::to_string(volume) + ".data"; }

/// A mostly well-formed manifest: each value has as many pages as it needs, one value behind the other.
class ManifestMaker {
 public:
  explicit ManifestMaker(Input& input) : input_(input) {}

  Manifest make(std::uint64_t n_volumes) {
    manifest_.step = input_.number(1);
    manifest_.store_id = 0x0123456789abcdef;
    manifest_.block_bytes = kPageBytes << input_.below(4);
    manifest_.checksums = input_.below(2) == 1;
    for (std::uint64_t v = 0; v < n_volumes; ++v) manifest_.volumes.push_back({data_name(v), v + 1, 0});
    manifest_.values.resize(input_.below(9));
    for (std::uint64_t key = 0; auto& value : manifest_.values) add(key += 1 + input_.below(3), value);
    spoil();
    return manifest_;
  }

 private:
  /// Deals the units of the value over the volumes as the input says.
  void add(std::uint64_t key, ManifestValue& value) {
    value = {key, input_.below(16) == 0 ? input_.figure() : input_.number(2), {}, {}};
    value.extents.resize(manifest_.volumes.size());
    const auto room_bytes = value_room_bytes(std::min(value.n_bytes, kMostGetBytes));
    for (std::uint64_t at = 0; at < room_bytes; at += manifest_.block_bytes)
      value.extents[input_.below(value.extents.size())].n_bytes += std::min(manifest_.block_bytes, room_bytes - at);
    for (std::size_t v = 0; v < value.extents.size(); ++v) place(value.extents[v], manifest_.volumes[v].end_bytes);
    if (manifest_.checksums) value.checksums.resize(n_value_blocks(value.n_bytes, manifest_.block_bytes) % 1024);
  }

  void place(Extent& extent, std::uint64_t& end_bytes) {
    if (extent.n_bytes == 0) return;
    extent.offset_bytes = end_bytes + kPageBytes * (input_.below(4) == 0 ? input_.below(8) : 0);
    end_bytes = extent.offset_bytes + extent.n_bytes;
  }

  /// At times changes one figure of one value, or the length of a volume.
  void spoil() {
    auto& volume = manifest_.volumes[input_.below(manifest_.volumes.size())];
    const auto which = input_.below(16);
    if (which == 0) volume.end_bytes = input_.figure() * kPageBytes;
    if (which == 1) volume.file_name = data_name(input_.below(4));
    if (which == 2) volume.file_name = kManifestName;
    if (which > 6 || which < 3 || manifest_.values.empty()) return;
    auto& value = manifest_.values[input_.below(manifest_.values.size())];
    auto& extent = value.extents[input_.below(value.extents.size())];
    (which == 3   ? value.n_bytes
     : which == 4 ? extent.offset_bytes
     : which == 5 ? extent.n_bytes
                  : value.key) = input_.figure() * (which == 4 || which == 5 ? kPageBytes : 1);
  }

  Input& input_;
  Manifest manifest_;
};

void append(std::vector<std::byte>& bytes, std::uint64_t word) {
  bytes.resize(bytes.size() + 8);
  test::put_word(bytes, bytes.size() - 8, word);
}

void append(std::vector<std::byte>& bytes, std::initializer_list<std::uint64_t> words) {
  for (const auto word : words) append(bytes, word);
}

/// Like encode_manifest, but of any manifest.
std::vector<std::byte> encode_any(const Manifest& manifest) {
  std::vector<std::byte> bytes(16);
  append(bytes,
         {0, manifest.step, manifest.store_id, manifest.block_bytes, manifest.volumes.size(), manifest.values.size()});
  bytes[12] = static_cast<std::byte>(manifest.checksums ? 1 : 0);
  for (const auto& volume : manifest.volumes) {
    append(bytes, {volume.id, volume.end_bytes, volume.file_name.size()});
    for (const char c : volume.file_name) bytes.push_back(static_cast<std::byte>(c));
  }
  for (const auto& value : manifest.values) {
    append(bytes, {value.key, value.n_bytes});
    for (const auto& extent : value.extents) append(bytes, {extent.offset_bytes, extent.n_bytes});
    append(bytes, value.checksums.size());
    for (const auto sum : value.checksums) append(bytes, sum);
  }
  append(bytes, 0);
  return bytes;
}

void seal(std::vector<std::byte>& bytes) {
  if (bytes.size() < 72) bytes.resize(72);
  std::memcpy(bytes.data(), "CastorMf\x01\0\0\0", 12);
  test::reseal_manifest(bytes);
}

void write_file(const std::string& path, std::span<const std::byte> bytes, std::uint64_t length_bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  std::error_code too_long;  // then the file keeps its length
  fs::resize_file(path, length_bytes, too_long);
}

/// Two folders that are created once.
class Folders {
 public:
  Folders() : root_(test::ScratchFolder::quick_parent()) {}

  std::vector<std::string> named(std::uint64_t n) const {
    std::vector<std::string> folders{root_.path() + "/a", root_.path() + "/b"};
    folders.resize(n);
    return folders;
  }
  void clear() const {
    for (const auto& folder : named(2)) fs::remove_all(folder), fs::create_directory(folder);
  }

 private:
  test::ScratchFolder root_;
};

/// Makes the file of volume `v`: mostly as long as the manifest says, at times missing.
void make_data_file(Input& input, const std::string& path, std::uint64_t end_bytes) {
  const auto content = input.take(input.number(1));
  const bool usual = input.below(8) != 0;
  if (!usual && input.below(4) == 0) return;
  write_file(path, content, usual ? std::max<std::uint64_t>(end_bytes, content.size()) : input.figure());
}

std::vector<std::byte> make_manifest_file(Input& input, const Manifest& manifest) {
  auto bytes = encode_any(manifest);
  if (input.below(4) == 0)
    for (auto n_changes = input.below(8); n_changes > 0; --n_changes)
      bytes[input.number(2) % bytes.size()] = static_cast<std::byte>(input.number(1));
  if (input.below(16) == 0) {
    const auto raw = input.take(kPageBytes);
    bytes.assign(raw.begin(), raw.end());
  }
  seal(bytes);
  return bytes;
}

/// Makes the folders that the input describes; returns how many of them to open.
std::uint64_t make_folders(Input& input, const Folders& folders) {
  folders.clear();
  const auto paths = folders.named(2);
  const auto n_volumes = 1 + input.below(2);
  const auto manifest = ManifestMaker(input).make(n_volumes);
  for (std::uint64_t v = 0; v < n_volumes; ++v)
    make_data_file(input, paths[v] + "/" + data_name(v), manifest.volumes[v].end_bytes);
  const auto bytes = make_manifest_file(input, manifest);
  write_file(paths[input.below(16) == 0 ? 1 : 0] + "/" + kManifestName, bytes, bytes.size());
  return input.below(16) == 0 ? 3 - n_volumes : n_volumes;
}

void check(bool holds) {
  if (!holds) std::abort();
}

/// Gets every key, which must give bytes or an error; a get of another size must be refused.
void get_all(TensorStore& store) {
  for (const auto key : store.keys()) {
    const auto n_bytes = store.value_bytes(key).value();
    const test::TestBuffer bytes(std::min(n_bytes, kMostGetBytes));
    const auto got = store.get(key, bytes.view()).wait();
    check(got.ok() ? n_bytes <= kMostGetBytes : !got.error().message.empty());
    check(!store.get(key, test::TestBuffer(bytes.view().n_bytes + 1).view()).wait().ok() || n_bytes > kMostGetBytes);
  }
}

/// Whether the commit succeeded.
bool put_and_commit(TensorStore& store, const test::TestBuffer& bytes) {
  store.remove(2);
  for (const std::uint64_t key : {1, 5})
    if (!store.put(key, bytes.view()).wait().ok()) return false;
  return store.commit(1234).wait().ok();
}

void open_twice(const TensorStoreOptions& options, const test::TestBuffer& bytes) {
  {
    auto opened = TensorStore::open(options);
    if (!opened.ok()) return check(!opened.error().message.empty());
    const auto store = std::move(opened).value();
    get_all(*store);
    if (!put_and_commit(*store, bytes)) return;
  }
  const auto store = TensorStore::open(options).value();
  check(store->committed_step() == 1234);
  for (const std::uint64_t key : {1, 5}) {
    const test::TestBuffer in(bytes.view().n_bytes);
    check(store->get(key, in.view()).wait().ok() && in.holds(7));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folders folders;
  Input input(std::as_bytes(std::span(data, size)));
  Budget budget(Tier::nvme, 16 * kMiB);
  TensorStoreOptions options;
  options.durability = Durability::commit;
  options.engine = EngineChoice::threads;
  options.n_threads = 1;
  options.depth = 2;
  if (input.below(4) != 0) options.budget = &budget;
  options.folders = folders.named(make_folders(input, folders));
  open_twice(options, test::TestBuffer(input.number(2) % 20000, 7));
  return 0;
}
