// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/grad_accumulator.h>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "adam_data.h"
#include "flushing_caller.h"
#include "kernel_place.h"
#include "naive_formats.h"

namespace castor {
namespace {

using testing::bits_of;

using testing::kAllTypes;

class Accumulator : public testing::KernelPlace {
 protected:
  enum class Work { widen, add };

  /// `sum` after one call of this place's kernel with the elements `grad` of `dtype`, all `offset` elements in.
  std::vector<float> after(Work work, std::vector<float> sum, const std::vector<std::uint8_t>& grad, DType dtype,
                           std::uint64_t offset = 0) {
    const Buffer sums = upload(sum, offset), grads = upload(grad, offset * size_bytes(dtype));
    float* target = reinterpret_cast<float*>(sums.data()) + offset;
    const std::byte* source = grads.data() + offset * size_bytes(dtype);
    const auto kernel = make_accumulator(device()).value();
    const std::uint64_t n = grad.size() / size_bytes(dtype);
    (work == Work::add ? kernel->add(stream(), target, source, dtype, n)
                       : kernel->widen(stream(), target, source, dtype, n))
        .value();
    download(sums, sum, offset);
    return sum;
  }
};
INSTANTIATE_TEST_SUITE_P(On, Accumulator, testing::all_places(), testing::place_name);

/// The pattern of every 16-bit number, NaNs of all kinds included.
std::vector<std::uint8_t> all_patterns() {
  std::vector<std::uint8_t> bytes(2 << 16);
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits) {
    bytes[2 * bits] = static_cast<std::uint8_t>(bits);
    bytes[2 * bits + 1] = static_cast<std::uint8_t>(bits >> 8);
  }
  return bytes;
}

TEST_P(Accumulator, WidensEveryPatternToItsValue) {
  const auto patterns = all_patterns();
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name(dtype));
    const auto wide = after(Work::widen, std::vector<float>(1 << 16, 7), patterns, dtype);
    for (std::uint32_t i = 0; i < 1u << 16; ++i) {
      const float wanted = testing::naive_widen(patterns.data(), dtype, i);
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(wide[i])) << i;
      } else {
        ASSERT_EQ(bits_of(wide[i]), bits_of(wanted)) << i;
      }
    }
  }
}

TEST_P(Accumulator, AddsInFp32WithOneRoundingAndOneNan) {
  std::mt19937_64 random(21);
  for (const DType dtype : kAllTypes)
    for (const std::uint64_t n : {1u, 3u, 255u, 256u, 257u, 4099u})
      for (const std::uint64_t offset : {0u, 1u}) {
        SCOPED_TRACE(::testing::Message() << name(dtype) << ", " << n << " elements at " << offset);
        const auto data = testing::random_data(random, n, dtype, DType::f32);
        const auto sum = after(Work::add, data.master, data.grad, dtype, offset);
        for (std::uint64_t i = 0; i < n; ++i) {
          const volatile float wanted = data.master[i] + testing::naive_widen(data.grad.data(), dtype, i);
          ASSERT_EQ(bits_of(sum[i]), std::isnan(wanted) ? 0x7fc00000u : bits_of(wanted)) << i;
        }
      }
}

TEST_P(Accumulator, LeavesWhatLiesBehindTheElementsAlone) {
  const std::vector<float> sum = {1, 2, 3, 4, 5};
  const std::vector<std::uint8_t> two_ones = {0x80, 0x3f, 0x80, 0x3f};  // bf16
  EXPECT_EQ(after(Work::add, sum, two_ones, DType::bf16), (std::vector<float>{2, 3, 3, 4, 5}));
  EXPECT_EQ(after(Work::widen, sum, two_ones, DType::bf16), (std::vector<float>{1, 1, 3, 4, 5}));
  EXPECT_EQ(after(Work::add, sum, {}, DType::bf16), sum);
  EXPECT_EQ(after(Work::widen, sum, {}, DType::bf16), sum);
}

TEST_P(Accumulator, KeepsSubnormalsWhereTheCallerFlushesThem) {
  const std::vector<std::uint8_t> subnormal = {0x01, 0x00};  // bf16: 2^-133
  std::vector<float> sum, wide;
  {
    const testing::FlushingCaller caller;
    ASSERT_TRUE(caller.flushes());
    sum = after(Work::add, {0x1p-133f}, subnormal, DType::bf16);
    wide = after(Work::widen, {1}, subnormal, DType::bf16);
    EXPECT_TRUE(caller.still_set());
  }
  EXPECT_EQ(bits_of(sum[0]), bits_of(0x1p-132f));
  EXPECT_EQ(bits_of(wide[0]), bits_of(0x1p-133f));
}

TEST_P(Accumulator, SmallestFp16IsWidenedWhereTheCallerFlushes) {
  std::vector<float> wide;
  {
    const testing::FlushingCaller caller;
    wide = after(Work::widen, {1}, {0x01, 0x80}, DType::f16);
  }
  EXPECT_EQ(bits_of(wide[0]), bits_of(-0x1p-24f));
}

}  // namespace
}  // namespace castor
