// SPDX-License-Identifier: Apache-2.0
#include "bench/io/ceiling.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace castor::bench {
namespace {

const IoCase kRead{Rw::read, kMiB, kMiB, 16};
const Region kWritten{{}, kMiB, true};
const Region kUnwritten{{}, kMiB - 4096, true};

/// A ceiling with scripted results.
class FakeCeiling final : public Ceiling {
 public:
  /// `n_bytes`: the bytes that successive runs move, one second each; a run after the last fails.
  explicit FakeCeiling(std::vector<std::uint64_t> n_bytes) : n_bytes_(std::move(n_bytes)) {}

  std::string program() const override { return "fake"; }

  std::vector<Pace> paces;
  double asked_s = 0;

 private:
  Result<Sample> measure_at(Pace pace, const IoCase&, const Region&, double seconds) override {
    if (paces.size() == n_bytes_.size()) return Error{ErrorKind::io, "no more"};
    asked_s += seconds;
    paces.push_back(pace);
    return Sample{n_bytes_[paces.size() - 1], 1, 0};
  }

  const std::vector<std::uint64_t> n_bytes_;
};

TEST(Ceiling, TriesBothPacesThereAndBack) {
  FakeCeiling ceiling({1, 1, 1, 1});
  ceiling.settle(kRead, kWritten, 2).value();
  EXPECT_EQ(ceiling.paces, (std::vector<Pace>{Pace::one_by_one, Pace::in_batches, Pace::in_batches, Pace::one_by_one}));
  EXPECT_DOUBLE_EQ(ceiling.asked_s, 2);
}

TEST(Ceiling, TakesTheFasterPaceOfBothTrials) {
  FakeCeiling batches({5, 9, 4, 7, 0});  // 13 in batches against 12
  batches.settle(kRead, kWritten, 2).value();
  EXPECT_EQ(batches.name(), "fake in batches");
  batches.measure(kRead, kWritten, 1).value();
  EXPECT_EQ(batches.paces.back(), Pace::in_batches);
  FakeCeiling single({5, 9, 4, 9, 0});  // 13 in batches against 14
  single.settle(kRead, kWritten, 2).value();
  EXPECT_EQ(single.name(), "fake one by one");
  single.measure(kRead, kWritten, 1).value();
  EXPECT_EQ(single.paces.back(), Pace::one_by_one);
}

TEST(Ceiling, AFailedTrialLeavesThePace) {
  FakeCeiling ceiling({9, 1, 1});
  EXPECT_EQ(ceiling.settle(kRead, kWritten, 2).error().kind, ErrorKind::io);
  EXPECT_EQ(ceiling.name(), "fake in batches");
}

TEST(Ceiling, MovesNothingInAFileThatHoldsNoRequest) {
  FakeCeiling ceiling({1, 1, 1, 1});
  EXPECT_EQ(ceiling.settle(kRead, kUnwritten, 2).error().kind, ErrorKind::failed);
  EXPECT_EQ(ceiling.measure(kRead, kUnwritten, 1).error().kind, ErrorKind::failed);
  EXPECT_TRUE(ceiling.paces.empty());
}

}  // namespace
}  // namespace castor::bench
