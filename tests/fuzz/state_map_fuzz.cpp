// SPDX-License-Identifier: Apache-2.0
// decode_state_map on any words: it must not crash, nor take much memory; an accepted map encodes to the same words.
#include <castor/states/state_map.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint64_t> words(size / sizeof(std::uint64_t));
  if (!words.empty()) std::memcpy(words.data(), data, words.size() * sizeof(std::uint64_t));
  const auto map = castor::decode_state_map(words);
  if (!map.ok()) return map.error().message.size() < 1000 ? 0 : (std::abort(), 0);
  if (castor::encode_state_map(*map) != words) std::abort();
  return 0;
}
