// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/link_rates.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <castor/memory/bytes.h>

#include "subjects.h"

namespace castor {
namespace {

/// A clock under which the k-th timed copy takes `copies_ns[k]`, whatever its real time: it is read before and after
/// each.
class ScriptedClock {
 public:
  explicit ScriptedClock(std::vector<std::uint64_t> copies_ns) : copies_ns_(std::move(copies_ns)) {}
  std::uint64_t operator()() {
    if (n_readings_++ % 2 == 1) t_ns_ += copies_ns_.at(n_readings_ / 2 - 1);
    return t_ns_;
  }
  std::size_t n_readings() const { return n_readings_; }

 private:
  const std::vector<std::uint64_t> copies_ns_;
  std::size_t n_readings_ = 0;
  std::uint64_t t_ns_ = 5000;
};

double rate(std::uint64_t duration_ns) { return 32.0 * kMiB / (static_cast<double>(duration_ns) * 1e-9); }

TEST(LinkRates, AreMediansOfFiveCopies) {
  ScriptedClock script({900'000, 100'000, 300'000, 200'000, 250'000,              // up: median 250 µs
                        400'000, 400'000, 1'000, 2'000'000, 500'000,              // down: 400 µs
                        3'000'000, 1'000'000, 2'000'000, 9'000'000, 1'000'000});  // host: 2 ms
  const auto device = make_cpu_device();
  const auto rates = calibrate_links(*device, std::ref(script));
  ASSERT_TRUE(rates.ok());
  EXPECT_DOUBLE_EQ(rates->h2d, rate(250'000));
  EXPECT_DOUBLE_EQ(rates->d2h, rate(400'000));
  EXPECT_DOUBLE_EQ(rates->host_copy, rate(2'000'000));
  EXPECT_EQ(script.n_readings(), 30u);
}

TEST(LinkRates, ASlowLinkIsNotMeasuredForLong) {
  ScriptedClock script({100'000'000, 15'000'000, 15'000'000, 15'000'000, 39'000'000, 70'000'000});
  const auto device = make_cpu_device();
  const auto rates = calibrate_links(*device, std::ref(script));
  ASSERT_TRUE(rates.ok());
  EXPECT_DOUBLE_EQ(rates->h2d, rate(100'000'000)) << "one copy was enough";
  EXPECT_DOUBLE_EQ(rates->d2h, rate(15'000'000)) << "three copies were enough";
  EXPECT_DOUBLE_EQ(rates->host_copy, rate(70'000'000)) << "the upper of two";
}

TEST(LinkRates, AClockTooCoarseStillGivesAFigure) {
  const auto device = make_cpu_device();
  const auto rates = calibrate_links(*device, [] { return std::uint64_t{7}; });
  ASSERT_TRUE(rates.ok());
  EXPECT_TRUE(std::isfinite(rates->h2d));
}

TEST(LinkRates, OfTheHostAreWithinReason) {
  const auto device = make_cpu_device();
  const auto rates = calibrate_links(*device);
  ASSERT_TRUE(rates.ok());
  for (const double figure : {rates->h2d, rates->d2h, rates->host_copy}) {
    EXPECT_GT(figure, 1e7);
    EXPECT_LT(figure, 1e13);
  }
}

TEST(LinkRates, OfAGpuAreWithinReason) {
  testing::CudaSubject gpu;
  if (!gpu.missing().empty()) GTEST_SKIP() << gpu.missing();
  const auto rates = calibrate_links(gpu.device());
  ASSERT_TRUE(rates.ok()) << rates.error().message;
  for (const double figure : {rates->h2d, rates->d2h}) {
    EXPECT_GT(figure, 1e9);
    EXPECT_LT(figure, 1e13);
  }
}

}  // namespace
}  // namespace castor
