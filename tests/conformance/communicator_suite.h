// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/device.h>
#include <castor/parallel/communicator.h>

namespace castor::conformance {

/// The 16-bit pattern of a small integer, which every type here holds exactly.
inline std::uint16_t pattern_of(int value, DType dtype) {
  if (dtype == DType::bf16)
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent - 1 + 15) << 10 |
                                    static_cast<int>((fraction * 2 - 1) * 1024));
}

inline std::vector<std::byte> encode(const std::vector<int>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_bytes(dtype));
  for (std::size_t k = 0; k < values.size(); ++k) {
    const auto wide = static_cast<float>(values[k]);
    const auto narrow = pattern_of(values[k], dtype);
    const void* element = dtype == DType::f32 ? static_cast<const void*>(&wide) : &narrow;
    std::memcpy(bytes.data() + k * size_bytes(dtype), element, size_bytes(dtype));
  }
  return bytes;
}

/// One rank at work: its communicator, its device and a stream there.
struct RankAtWork {
  Communicator& communicator;
  Device& device;
  Stream& stream;

  int rank() const { return communicator.rank(); }
  int world_size() const { return communicator.world_size(); }
  Buffer allocate(std::uint64_t n_bytes) {
    return std::move(Buffer::allocate(device.device_memory(), n_bytes)).value();
  }
  Buffer upload(const std::vector<std::byte>& bytes) {
    auto buffer = allocate(bytes.size());
    stream.copy(buffer.data(), bytes.data(), bytes.size()).wait().value();
    return buffer;
  }
  std::vector<std::byte> download(const Buffer& buffer) {
    std::vector<std::byte> bytes(buffer.n_bytes());
    stream.copy(bytes.data(), buffer.data(), bytes.size()).wait().value();
    return bytes;
  }
};

/// Runs `body` once per rank, each on a thread of its own.
inline void on_threads(int world_size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank)
    threads.emplace_back([&body, rank] {
      try {
        body(rank);
      } catch (const std::exception& thrown) {
        ADD_FAILURE() << "rank " << rank << ": " << thrown.what();
      }
    });
  for (auto& thread : threads) thread.join();
}

/// The contract of Communicator, run over every backend and number of ranks:
///
///   INSTANTIATE_TYPED_TEST_SUITE_P(Threads, CommunicatorSuite, ThreadSubjects);
///
/// A Subject is default-constructible and has
///   std::string missing()                               why this machine cannot run it, empty if it can; nothing
///                                                       else is called then
///   int world_size()
///   std::unique_ptr<Device> device(int rank)            both are called on the rank's own thread
///   std::unique_ptr<Communicator> join(int rank)
/// Values are small integers, so that sums are exact in every type and order.
template <typename Subject>
class CommunicatorSuite : public ::testing::Test {
 protected:
  static constexpr std::size_t kElements = 2003;  // a prime: no number of ranks divides it

  void SetUp() override {
    if (const auto reason = subject_.missing(); !reason.empty()) GTEST_SKIP() << reason;
  }

  void on_every_rank(const std::function<void(RankAtWork&)>& body) {
    on_threads(subject_.world_size(), [&](int rank) {
      const auto device = subject_.device(rank);
      const auto communicator = subject_.join(rank);
      const auto stream = std::move(device->make_stream()).value();
      RankAtWork at_work{*communicator, *device, *stream};
      body(at_work);
      communicator->barrier(*stream).wait().value();  // no rank leaves before all are done
    });
  }

  /// Element k of the input of `rank`: 0 … 6 + rank, at most 13 × 8 ranks in a sum.
  static int brought(int rank, std::size_t k) { return static_cast<int>(k % 7) + rank; }
  static std::vector<int> brought(int rank, std::size_t first, std::size_t n) {
    std::vector<int> values(n);
    for (std::size_t k = 0; k < n; ++k) values[k] = brought(rank, first + k);
    return values;
  }
  static std::vector<int> sums(int world_size, std::size_t first, std::size_t n) {
    std::vector<int> values(n, 0);
    for (int rank = 0; rank < world_size; ++rank)
      for (std::size_t k = 0; k < n; ++k) values[k] += brought(rank, first + k);
    return values;
  }

  static constexpr std::array<DType, 3> kDTypes = {DType::f32, DType::bf16, DType::f16};
  Subject subject_;
};

TYPED_TEST_SUITE_P(CommunicatorSuite);

TYPED_TEST_P(CommunicatorSuite, KnowsItsRank) {
  std::atomic<int> ranks_seen{0};
  this->on_every_rank([&](RankAtWork& at) {
    EXPECT_EQ(at.world_size(), this->subject_.world_size());
    EXPECT_TRUE(at.communicator.status().ok());
    ranks_seen += 1 << at.rank();
  });
  EXPECT_EQ(ranks_seen, (1 << this->subject_.world_size()) - 1) << "each rank exactly once";
}

TYPED_TEST_P(CommunicatorSuite, AllReduceSums) {
  this->on_every_rank([&](RankAtWork& at) {
    for (const auto dtype : this->kDTypes) {
      const auto data = at.upload(encode(this->brought(at.rank(), 0, this->kElements), dtype));
      at.communicator.all_reduce(data.view(), dtype, ReduceOp::sum, at.stream).wait().value();
      EXPECT_EQ(at.download(data), encode(this->sums(at.world_size(), 0, this->kElements), dtype)) << name(dtype);
    }
  });
}

TYPED_TEST_P(CommunicatorSuite, AllReduceTakesTheLargest) {
  this->on_every_rank([&](RankAtWork& at) {
    const auto value = [](int rank, std::size_t k) {
      return static_cast<int>((5 * k + 3 * static_cast<std::size_t>(rank)) % 11) - 20;
    };
    std::vector<int> mine(this->kElements), largest(this->kElements, -100);
    for (std::size_t k = 0; k < mine.size(); ++k) {
      mine[k] = value(at.rank(), k);
      for (int rank = 0; rank < at.world_size(); ++rank) largest[k] = std::max(largest[k], value(rank, k));
    }
    for (const auto dtype : this->kDTypes) {
      const auto data = at.upload(encode(mine, dtype));
      at.communicator.all_reduce(data.view(), dtype, ReduceOp::max, at.stream).wait().value();
      EXPECT_EQ(at.download(data), encode(largest, dtype)) << name(dtype);
    }
  });
}

TYPED_TEST_P(CommunicatorSuite, ReduceScatterLeavesEachRankItsPart) {
  this->on_every_rank([&](RankAtWork& at) {
    const auto n_all = this->kElements * static_cast<std::size_t>(at.world_size());
    const auto first = this->kElements * static_cast<std::size_t>(at.rank());
    for (const auto dtype : this->kDTypes) {
      const auto whole = encode(this->brought(at.rank(), 0, n_all), dtype);
      const auto expected = encode(this->sums(at.world_size(), first, this->kElements), dtype);
      const auto input = at.upload(whole);
      const auto output = at.allocate(expected.size());
      at.communicator.reduce_scatter(input.view(), output.view(), dtype, ReduceOp::sum, at.stream).wait().value();
      EXPECT_EQ(at.download(output), expected) << name(dtype);
      EXPECT_EQ(at.download(input), whole) << "the input is left as it was";
    }
  });
}

TYPED_TEST_P(CommunicatorSuite, ReduceScatterWorksInPlace) {
  this->on_every_rank([&](RankAtWork& at) {
    const auto world = static_cast<std::size_t>(at.world_size()), rank = static_cast<std::size_t>(at.rank());
    const auto buffer = at.upload(encode(this->brought(at.rank(), 0, this->kElements * world), DType::f32));
    const auto mine = buffer.view().part(rank * this->kElements * 4, this->kElements * 4);
    at.communicator.reduce_scatter(buffer.view(), mine, DType::f32, ReduceOp::sum, at.stream).wait().value();
    const auto all = at.download(buffer);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * this->kElements * 4);
    EXPECT_EQ(std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(this->kElements * 4)),
              encode(this->sums(at.world_size(), rank * this->kElements, this->kElements), DType::f32));
  });
}

TYPED_TEST_P(CommunicatorSuite, AllGatherKeepsTheOrderOfRanks) {
  this->on_every_rank([&](RankAtWork& at) {
    const auto input = at.upload(encode(this->brought(at.rank(), 0, this->kElements), DType::bf16));
    const auto output = at.allocate(input.n_bytes() * static_cast<std::uint64_t>(at.world_size()));
    at.communicator.all_gather(input.view(), output.view(), at.stream).wait().value();
    std::vector<std::byte> expected;
    for (int rank = 0; rank < at.world_size(); ++rank) {
      const auto part = encode(this->brought(rank, 0, this->kElements), DType::bf16);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    EXPECT_EQ(at.download(output), expected);
  });
}

TYPED_TEST_P(CommunicatorSuite, AllGatherWorksInPlaceAndOnAnyBytes) {
  this->on_every_rank([&](RankAtWork& at) {
    const auto world = static_cast<std::size_t>(at.world_size()), rank = static_cast<std::size_t>(at.rank());
    constexpr std::size_t kPart = 1021;  // bytes, no whole number of any element
    std::vector<std::byte> before(kPart * world, std::byte{0xee}), expected(kPart * world);
    for (std::size_t k = 0; k < kPart; ++k) before[rank * kPart + k] = static_cast<std::byte>(k + rank);
    for (std::size_t k = 0; k < expected.size(); ++k) expected[k] = static_cast<std::byte>(k % kPart + k / kPart);
    const auto buffer = at.upload(before);
    at.communicator.all_gather(buffer.view().part(rank * kPart, kPart), buffer.view(), at.stream).wait().value();
    EXPECT_EQ(at.download(buffer), expected);
  });
}

TYPED_TEST_P(CommunicatorSuite, BroadcastComesFromAnyRoot) {
  this->on_every_rank([&](RankAtWork& at) {
    for (int root = 0; root < at.world_size(); ++root) {
      const auto data = at.upload(std::vector<std::byte>(777, static_cast<std::byte>(at.rank() + 1)));
      at.communicator.broadcast(data.view(), root, at.stream).wait().value();
      EXPECT_EQ(at.download(data), std::vector<std::byte>(777, static_cast<std::byte>(root + 1))) << "root " << root;
    }
  });
}

TYPED_TEST_P(CommunicatorSuite, ABarrierIsReachedWhenAllHaveCome) {
  std::atomic<int> n_come{0};
  this->on_every_rank([&](RankAtWork& at) {
    for (int round = 1; round <= 5; ++round) {
      ++n_come;
      at.communicator.barrier(at.stream).wait().value();
      EXPECT_GE(n_come, round * at.world_size());
    }
  });
}

TYPED_TEST_P(CommunicatorSuite, NothingIsANumberOfBytes) {
  this->on_every_rank([&](RankAtWork& at) {
    const BufferView none;
    EXPECT_TRUE(at.communicator.all_reduce(none, DType::f32, ReduceOp::sum, at.stream).wait().ok());
    EXPECT_TRUE(at.communicator.reduce_scatter(none, none, DType::bf16, ReduceOp::max, at.stream).wait().ok());
    EXPECT_TRUE(at.communicator.all_gather(none, none, at.stream).wait().ok());
    EXPECT_TRUE(at.communicator.broadcast(none, 0, at.stream).wait().ok());
  });
}

TYPED_TEST_P(CommunicatorSuite, StandsInTheOrderOfItsStream) {
  this->on_every_rank([&](RankAtWork& at) {
    const auto values = encode(this->brought(at.rank(), 0, this->kElements), DType::f32);
    const auto data = at.upload(std::vector<std::byte>(values.size(), std::byte{0x7f}));
    std::vector<std::byte> result(values.size());
    at.stream.copy(data.data(), values.data(), values.size());
    at.communicator.all_reduce(data.view(), DType::f32, ReduceOp::sum, at.stream);
    at.stream.copy(result.data(), data.data(), result.size());
    at.stream.synchronize().value();
    EXPECT_EQ(result, encode(this->sums(at.world_size(), 0, this->kElements), DType::f32));
  });
}

TYPED_TEST_P(CommunicatorSuite, ManyMayBeUnderWayAtOnce) {
  this->on_every_rank([&](RankAtWork& at) {
    const auto shard = at.upload(encode({at.rank() + 1, 0}, DType::f32));
    const auto all = at.allocate(shard.n_bytes() * static_cast<std::uint64_t>(at.world_size()));
    for (int round = 0; round < 6; ++round) {  // each round sums copies of itself: times world_size
      at.communicator.all_gather(shard.view(), all.view(), at.stream);
      at.communicator.reduce_scatter(all.view(), shard.view(), DType::f32, ReduceOp::sum, at.stream);
    }
    at.stream.synchronize().value();
    const int factor = static_cast<int>(std::pow(at.world_size(), 6));
    EXPECT_EQ(at.download(shard), encode({(at.rank() + 1) * factor, 0}, DType::f32));
  });
}

TYPED_TEST_P(CommunicatorSuite, RefusesWhatDoesNotFitAndGoesOn) {
  this->on_every_rank([&](RankAtWork& at) {
    auto& communicator = at.communicator;
    const auto world = static_cast<std::uint64_t>(at.world_size());
    const auto big = at.upload(std::vector<std::byte>(64 * world + 64));
    const auto small = at.upload(std::vector<std::byte>(128));
    const auto whole = big.view().part(0, 64 * world), part = small.view().part(0, 64);
    EXPECT_THROW(communicator.all_reduce(small.view().part(0, 6), DType::f32, ReduceOp::sum, at.stream),
                 ContractViolation);
    EXPECT_THROW(communicator.all_reduce({nullptr, 8}, DType::f32, ReduceOp::sum, at.stream), ContractViolation);
    EXPECT_THROW(communicator.reduce_scatter(whole, small.view().part(0, 60), DType::f32, ReduceOp::sum, at.stream),
                 ContractViolation);
    EXPECT_THROW(communicator.reduce_scatter(whole, big.view().part(4, 64), DType::f32, ReduceOp::sum, at.stream),
                 ContractViolation);
    EXPECT_THROW(communicator.all_gather(part, big.view(), at.stream), ContractViolation);
    EXPECT_THROW(communicator.broadcast(part, -1, at.stream), ContractViolation);
    EXPECT_THROW(communicator.broadcast(part, at.world_size(), at.stream), ContractViolation);
    EXPECT_TRUE(communicator.all_gather(part, whole, at.stream).wait().ok());
    EXPECT_TRUE(communicator.status().ok());
  });
}

REGISTER_TYPED_TEST_SUITE_P(CommunicatorSuite, KnowsItsRank, AllReduceSums, AllReduceTakesTheLargest,
                            ReduceScatterLeavesEachRankItsPart, ReduceScatterWorksInPlace,
                            AllGatherKeepsTheOrderOfRanks, AllGatherWorksInPlaceAndOnAnyBytes,
                            BroadcastComesFromAnyRoot, ABarrierIsReachedWhenAllHaveCome, NothingIsANumberOfBytes,
                            StandsInTheOrderOfItsStream, ManyMayBeUnderWayAtOnce, RefusesWhatDoesNotFitAndGoesOn);

}  // namespace castor::conformance
