// SPDX-License-Identifier: Apache-2.0
// The values that store_kill_child puts in every step, so that store_kill_test knows the values of each commit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace castor::test {

inline constexpr std::uint64_t kKillKeys = 8;
inline constexpr std::uint64_t kKillBlockBytes = 4096;

/// The length of `key` as of `step`; nothing where it is removed then. Sizes are unaligned, whole pages, one block and
/// many; those of keys 5 and 6 change.
inline std::optional<std::uint64_t> kill_value_bytes(std::uint64_t key, std::uint64_t step) {
  switch (key) {
    case 0: return 17;
    case 1: return 4096;
    case 2: return 12388;
    case 3: return 65536;
    case 4: return 0;
    case 5: return 1000 + 5000 * (step % 3);
    case 6: return 40000 - 8192 * (step % 4);
    default: return step % 2 == 0 ? std::optional<std::uint64_t>(20000) : std::nullopt;
  }
}

/// The seed of its bytes.
inline std::uint64_t kill_seed(std::uint64_t key, std::uint64_t step) { return step * kKillKeys + key; }

/// Whether `step` writes `key`: key 3 keeps its value of the even step before.
inline std::uint64_t step_of_value(std::uint64_t key, std::uint64_t step) { return key == 3 ? step - step % 2 : step; }

/// The messages of the child through its pipe, one character each; the step follows `committed`, as 8 bytes.
enum class KillMark : char { opened = 'o', puts = 'p', commit = 's', manifest = 'm', rename = 'r', committed = 'c' };

}  // namespace castor::test
