// SPDX-License-Identifier: Apache-2.0
// decode_manifest on any bytes: it must not crash, nor read outside, nor take much memory; an accepted manifest encodes
// to the same bytes again, and its extents are inside their volumes. An input whose first byte is odd gets the right
// magic, version, length and checksum, so that the checks behind them run; an even one is used as it is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "store/manifest.h"
#include "support/manifest_seal.h"
#include "support/random_manifest.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

std::vector<std::byte> behind_the_seal(std::vector<std::byte> bytes) {
  if (bytes.size() < 72) return bytes;
  std::memcpy(bytes.data(), "CastorMf\x01\0\0\0", 12);
  castor::test::reseal_manifest(bytes);
  return bytes;
}

/// In 128 bits, where no sum wraps around.
bool extents_are_inside(const castor::Manifest& manifest) {
  for (const auto& value : manifest.values) {
    for (std::size_t i = 0; i < manifest.volumes.size(); ++i) {
      const auto& extent = value.extents.at(i);
      if (static_cast<unsigned __int128>(extent.offset_bytes) + extent.n_bytes > manifest.volumes[i].end_bytes)
        return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> bytes(input.begin(), input.end());
  if (data[0] % 2 == 1) bytes = behind_the_seal(std::move(bytes));
  const auto manifest = castor::decode_manifest(bytes, "fuzzed");
  if (!manifest.ok()) return 0;
  if (castor::encode_manifest(*manifest) != bytes || !extents_are_inside(*manifest)) std::abort();
  return 0;
}

/// One in 16 inputs is a well-formed manifest, so that the fuzzer can start without a corpus.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  if (seed % 16 != 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto bytes = castor::encode_manifest(castor::test::RandomManifest::make(seed));
  if (bytes.size() + 1 > max_size) return LLVMFuzzerMutate(data, size, max_size);
  data[0] = 1;
  std::memcpy(data + 1, bytes.data(), bytes.size());
  return bytes.size() + 1;
}
