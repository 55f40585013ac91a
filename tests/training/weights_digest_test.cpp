// SPDX-License-Identifier: Apache-2.0
#include <castor/training/weights_digest.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace castor {
namespace {

using Masters = std::vector<std::vector<float>>;

/// A model whose parameters are only counted.
class CountedModel final : public ModelHost {
 public:
  explicit CountedModel(const Masters& masters) : masters_(masters) {}
  std::uint32_t n_params() override { return static_cast<std::uint32_t>(masters_.size()); }
  Result<castor_param_info> param_info(std::uint32_t id) override {
    auto info = blank<castor_param_info>();
    info.numel = masters_.at(id).size();
    return info;
  }

 private:
  const Masters& masters_;
};

/// A strategy whose masters can only be read.
class FixedStrategy final : public Strategy, private ValueCalls {
 public:
  explicit FixedStrategy(const Masters& masters) : masters_(masters) {}
  ValueCalls& values() override { return *this; }
  void break_at(std::uint32_t param) { broken_ = param; }

 private:
  Result<void> read_masters(const castor_values& values) override {
    if (values.param == broken_) return Error{ErrorKind::io, "the drive is gone"};
    std::copy(masters_.at(values.param).begin(), masters_.at(values.param).end(), static_cast<float*>(values.data));
    return {};
  }

  const Masters& masters_;
  std::uint32_t broken_ = UINT32_MAX;
};

std::string digest(const Masters& masters) {
  CountedModel model(masters);
  FixedStrategy strategy(masters);
  return weights_digest(model, strategy).value();
}

// Computed from the specification of XXH3 (inputs of 9 to 16 bytes) with an independent program: bytes 0000803f
// 000000c0 0000003f.
TEST(WeightsDigest, IsXxh3OfTheMastersInOrder) { EXPECT_EQ(digest({{1.0f, -2.0f}, {0.5f}}), "a26289f6e5f709a4"); }

// XXH3-64 of nothing, from the specification of xxHash.
TEST(WeightsDigest, OfNothingIsThatOfNoBytes) { EXPECT_EQ(digest({}), "2d06800538d394c2"); }

TEST(WeightsDigest, OneBitChangesIt) {
  EXPECT_NE(digest({{1.0f, -2.0f}, {0.5f}}), digest({{1.0f, -2.0f}, {0.50000006f}}));
}

TEST(WeightsDigest, OrderCounts) { EXPECT_NE(digest({{1.0f}, {2.0f}}), digest({{2.0f}, {1.0f}})); }

TEST(WeightsDigest, AMasterThatCannotBeReadIsAnError) {
  const Masters masters = {{1.0f}, {2.0f}};
  CountedModel model(masters);
  FixedStrategy strategy(masters);
  strategy.break_at(1);
  EXPECT_EQ(weights_digest(model, strategy).error().message, "the drive is gone");
}

TEST(CountParams, AddsThemUp) {
  const Masters masters = {{1, 2, 3}, {4}};
  CountedModel model(masters);
  EXPECT_EQ(count_params(model).value(), 4u);
}

}  // namespace
}  // namespace castor
