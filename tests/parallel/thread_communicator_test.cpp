// SPDX-License-Identifier: Apache-2.0
// Promises of the thread backend beyond tests/conformance/communicator_suite.h: exact bits, and errors where others
// hang.
#include <castor/parallel/thread_communicator.h>

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "communicator_suite.h"
#include "half.h"

namespace castor {
namespace {

/// A group whose ranks are all driven from the test's own thread: streams are workers, so no call waits for another
/// rank.
class ThreadCommunicatorTest : public ::testing::Test {
 protected:
  void make(int world_size) {
    ranks_ = make_thread_communicators(world_size);
    for (int rank = 0; rank < world_size; ++rank) streams_.push_back(std::move(device_->make_stream()).value());
  }
  template <typename T>
  static BufferView view(std::vector<T>& values) {
    return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)};
  }
  /// all_reduce of `data[rank]` on every rank.
  template <typename T>
  void all_reduce(std::vector<std::vector<T>>& data, DType dtype, ReduceOp op) {
    make(static_cast<int>(data.size()));
    std::vector<Work> works;
    for (std::size_t rank = 0; rank < data.size(); ++rank)
      works.push_back(ranks_[rank]->all_reduce(view(data[rank]), dtype, op, *streams_[rank]));
    for (const auto& work : works) work.wait().value();
  }
  static Event failed_event() {
    auto state = std::make_shared<HostEventState>();
    state->complete(Error{ErrorKind::io, "drive gone"});
    return Event(std::move(state));
  }

  std::unique_ptr<Device> device_ = make_cpu_device();
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST_F(ThreadCommunicatorTest, SumsFromTheFirstRankToTheLast) {
  std::vector<std::vector<float>> data = {{1e8f, 1.0f}, {1.0f, 1e8f}, {-1e8f, -1e8f}};
  all_reduce(data, DType::f32, ReduceOp::sum);
  // (1e8 + 1) - 1e8 in fp32: the 1 is lost, since 1e8 + 1 rounds to 1e8.
  for (const auto& result : data) EXPECT_EQ(result, (std::vector<float>{0.0f, 0.0f}));
}

TEST_F(ThreadCommunicatorTest, RoundsSixteenBitSumsOnce) {
  const auto bf16 = [](float value) { return float_to_bf16(value); };
  std::vector<std::vector<std::uint16_t>> data = {{bf16(256)}, {bf16(1)}, {bf16(1)}};
  all_reduce(data, DType::bf16, ReduceOp::sum);
  for (const auto& result : data)
    EXPECT_EQ(bf16_to_float(result[0]), 258.0f) << "rounded at each step it would stay 256";
}

TEST_F(ThreadCommunicatorTest, MatchesALoopOverRandomValues) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::size_t n_ranks = 2 + random() % 6, n_elements = 1 + random() % 10'000;
  std::uniform_real_distribution<float> value(-3.0f, 3.0f);
  std::vector<std::vector<float>> wide(n_ranks, std::vector<float>(n_elements));
  std::vector<std::vector<std::uint16_t>> narrow(n_ranks, std::vector<std::uint16_t>(n_elements));
  std::vector<float> sum(n_elements, 0.0f), narrow_sum(n_elements, 0.0f);
  for (std::size_t rank = 0; rank < n_ranks; ++rank)
    for (std::size_t k = 0; k < n_elements; ++k) {
      wide[rank][k] = value(random);
      narrow[rank][k] = float_to_f16(value(random));
      sum[k] = rank == 0 ? wide[rank][k] : sum[k] + wide[rank][k];
      narrow_sum[k] = rank == 0 ? f16_to_float(narrow[rank][k]) : narrow_sum[k] + f16_to_float(narrow[rank][k]);
    }
  all_reduce(wide, DType::f32, ReduceOp::sum);
  for (const auto& result : wide) EXPECT_EQ(result, sum);
  streams_.clear();
  all_reduce(narrow, DType::f16, ReduceOp::sum);
  for (std::size_t k = 0; k < n_elements; ++k)
    for (const auto& result : narrow) ASSERT_EQ(result[k], float_to_f16(narrow_sum[k])) << "element " << k;
}

TEST_F(ThreadCommunicatorTest, MaxPrefersNumbersToNaNs) {
  std::vector<std::vector<float>> data = {{NAN, 1.0f, NAN, -INFINITY}, {-5.0f, NAN, NAN, -7.0f}};
  all_reduce(data, DType::f32, ReduceOp::max);
  for (const auto& result : data) {
    EXPECT_EQ(result[0], -5.0f);
    EXPECT_EQ(result[1], 1.0f);
    EXPECT_TRUE(std::isnan(result[2]));
    EXPECT_EQ(result[3], -7.0f);
  }
}

TEST_F(ThreadCommunicatorTest, IsUnderWayUntilTheLastRankComes) {
  make(2);
  std::vector<float> first = {1.0f}, second = {2.0f};
  const auto early = ranks_[0]->all_reduce(view(first), DType::f32, ReduceOp::sum, *streams_[0]);
  const auto behind = streams_[0]->record();
  EXPECT_FALSE(early.ready());
  EXPECT_FALSE(behind.ready());
  const auto late = ranks_[1]->all_reduce(view(second), DType::f32, ReduceOp::sum, *streams_[1]);
  ASSERT_TRUE(behind.wait().ok());
  ASSERT_TRUE(late.wait().ok());
  EXPECT_TRUE(early.ready());
  EXPECT_EQ(first[0] + second[0], 6.0f);
}

TEST_F(ThreadCommunicatorTest, DifferentSizesAreAUsageErrorOnEveryRank) {
  make(2);
  std::vector<float> two(2, 1.0f), three(3, 1.0f);
  const auto first = ranks_[0]->all_reduce(view(two), DType::f32, ReduceOp::sum, *streams_[0]);
  const auto second = ranks_[1]->all_reduce(view(three), DType::f32, ReduceOp::sum, *streams_[1]);
  for (const auto& work : {first, second}) {
    const auto outcome = work.wait();
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().kind, ErrorKind::usage);
    EXPECT_EQ(outcome.error().message,
              "the ranks do not agree: rank 0 called all_reduce of 8 bytes (fp32, sum, root 0), rank 1 called "
              "all_reduce of 12 bytes "
              "(fp32, sum, root 0); all must call the same, in the same order");
  }
  EXPECT_EQ(two[0], 1.0f) << "nothing was touched";
  EXPECT_FALSE(streams_[0]->synchronize().ok()) << "the stream stops as after a failed copy";
}

TEST_F(ThreadCommunicatorTest, DifferentCollectivesTypesOperationsOrRootsAreErrors) {
  using Brings = std::function<Work(Communicator&, BufferView, Stream&)>;
  const Brings agreed = [](auto& rank, auto data, auto& stream) {
    return rank.all_reduce(data, DType::bf16, ReduceOp::sum, stream);
  };
  const std::vector<Brings> others = {
      [](auto& rank, auto data, auto& stream) { return rank.all_reduce(data, DType::f16, ReduceOp::sum, stream); },
      [](auto& rank, auto data, auto& stream) { return rank.all_reduce(data, DType::bf16, ReduceOp::max, stream); },
      [](auto& rank, auto data, auto& stream) { return rank.broadcast(data, 1, stream); },
      [](auto& rank, auto, auto& stream) { return rank.barrier(stream); },
  };
  std::vector<std::uint16_t> mine(4), yours(4);
  for (const auto& other : others) {
    streams_.clear();
    make(2);
    const auto first = agreed(*ranks_[0], view(mine), *streams_[0]);
    const auto second = other(*ranks_[1], view(yours), *streams_[1]);
    EXPECT_EQ(first.wait().error().kind, ErrorKind::usage);
    EXPECT_EQ(second.wait().error().kind, ErrorKind::usage);
  }
  streams_.clear();
  make(2);
  const auto first = ranks_[0]->broadcast(view(mine), 0, *streams_[0]);
  const auto second = ranks_[1]->broadcast(view(yours), 1, *streams_[1]);
  EXPECT_FALSE(first.wait().ok());
  EXPECT_FALSE(second.wait().ok());
}

TEST_F(ThreadCommunicatorTest, StaysBrokenAfterAnError) {
  make(2);
  std::vector<float> data(2);
  const auto first = ranks_[0]->broadcast(view(data), 0, *streams_[0]);
  const auto second = ranks_[1]->barrier(*streams_[1]);
  const auto message = first.wait().error().message;
  EXPECT_EQ(second.wait().error().message, message);
  (void)streams_[0]->synchronize();
  EXPECT_EQ(ranks_[0]->barrier(*streams_[0]).wait().error().message, message) << "without waiting for rank 1";
  EXPECT_EQ(ranks_[1]->status().error().message, message);
}

TEST_F(ThreadCommunicatorTest, ARankThatLeavesFailsThoseThatWaitForIt) {
  make(3);
  const auto first = ranks_[0]->barrier(*streams_[0]);
  const auto second = ranks_[1]->barrier(*streams_[1]);
  ranks_[2].reset();
  for (const auto& work : {first, second}) {
    const auto outcome = work.wait();
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().message, "rank 2 has left its communicator");
  }
}

TEST_F(ThreadCommunicatorTest, EndsAloneWithWorkUnderWay) {
  make(2);
  const auto abandoned = ranks_[0]->barrier(*streams_[0]);
  ranks_[0].reset();
  EXPECT_EQ(abandoned.wait().error().message, "rank 0 has left its communicator");
}

TEST_F(ThreadCommunicatorTest, AFailedStreamFailsAllRanksWithItsReason) {
  make(2);
  std::vector<float> good = {1.0f}, torn = {2.0f};
  (void)streams_[1]->wait(failed_event());
  const auto first = ranks_[0]->all_reduce(view(good), DType::f32, ReduceOp::sum, *streams_[0]);
  const auto second = ranks_[1]->all_reduce(view(torn), DType::f32, ReduceOp::sum, *streams_[1]);
  for (const auto& work : {first, second}) {
    const auto outcome = work.wait();
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().kind, ErrorKind::io);
    EXPECT_EQ(outcome.error().message, "rank 1 brought a failed stream to all_reduce: drive gone");
  }
  EXPECT_EQ(good[0], 1.0f);
}

TEST_F(ThreadCommunicatorTest, RunsInlineStreamsOnRanksOfTheirOwnThreads) {
  ranks_ = make_thread_communicators(3);
  std::vector<std::vector<float>> data(3, std::vector<float>{1.0f, 2.0f});
  conformance::on_threads(3, [&](int rank) {
    const auto stream = device_->wrap_compute_stream(nullptr);
    const auto work = ranks_[rank]->all_reduce(view(data[rank]), DType::f32, ReduceOp::sum, *stream);
    EXPECT_TRUE(work.ready()) << "an inline stream returns after the work";
    EXPECT_EQ(data[rank], (std::vector<float>{3.0f, 6.0f}));
  });
}

TEST_F(ThreadCommunicatorTest, NeedsAtLeastOneRank) {
  EXPECT_THROW((void)make_thread_communicators(0), ContractViolation);
  EXPECT_THROW((void)make_thread_communicators(-1), ContractViolation);
}

TEST(ReduceOp, HasNames) {
  EXPECT_STREQ(name(ReduceOp::sum), "sum");
  EXPECT_STREQ(name(ReduceOp::max), "max");
}

}  // namespace
}  // namespace castor
