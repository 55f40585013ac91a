// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/bytes.h>

namespace castor::literals {

// `using namespace castor::literals;` lets a program write sizes as 512_MiB and 8_GiB.
constexpr std::uint64_t operator""_KiB(unsigned long long n) { return n * kKiB; }
constexpr std::uint64_t operator""_MiB(unsigned long long n) { return n * kMiB; }
constexpr std::uint64_t operator""_GiB(unsigned long long n) { return n * kGiB; }

}  // namespace castor::literals
