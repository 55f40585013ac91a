// SPDX-License-Identifier: Apache-2.0
#include "value_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace castor {
namespace {

/// A parameter of these sizes, whose dimensions lie in memory in the order of `outer_first`.
struct Laid {
  Laid(std::vector<std::int64_t> sizes, const std::vector<std::size_t>& outer_first) : shape(std::move(sizes)) {
    strides.resize(shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = outer_first.size(); i-- > 0; stride *= shape[outer_first[i]]) strides[outer_first[i]] = stride;
    info = blank<castor_param_info>();
    info.shape = shape.data(), info.strides = strides.data();
    info.ndim = static_cast<std::int32_t>(shape.size()), info.numel = static_cast<std::uint64_t>(stride);
  }
  std::vector<std::int64_t> shape, strides;
  castor_param_info info;
};

/// The place in memory of the element with the row-major number `i`.
std::int64_t place_of(std::int64_t i, const Laid& laid) {
  std::int64_t place = 0;
  for (std::size_t d = laid.shape.size(); d-- > 0; i /= laid.shape[d]) place += i % laid.shape[d] * laid.strides[d];
  return place;
}

TEST(ValueOrder, EachPieceGoesWhereTheElementLiesInTheOtherOrder) {
  std::vector<std::size_t> from(4), to(4);
  std::iota(from.begin(), from.end(), 0);
  for (int turn = 0; std::next_permutation(from.begin(), from.end()); ++turn) {
    std::iota(to.begin(), to.end(), 0);
    std::rotate(to.begin(), to.begin() + turn % 4, to.end());
    const Laid source({2, 3, 1, 5}, from), target({2, 3, 1, 5}, to);
    std::vector<float> values(30), expected(30), moved(30);
    for (std::int64_t i = 0; i < 30; ++i)
      values[place_of(i, source)] = expected[place_of(i, target)] = static_cast<float>(i);
    const Reordering reordering(source.info, order_of(source.info), order_of(target.info));
    for (std::uint64_t first = 0; first < 30; first += 7)
      reordering.place(first, std::min<std::uint64_t>(7, 30 - first), &values[first], moved.data(), sizeof(float));
    EXPECT_EQ(moved, expected) << turn;
  }
}

TEST(ValueOrder, ADimensionOfOneElementHasNoStride) {
  Laid laid({4, 1, 3}, {0, 1, 2});
  EXPECT_EQ(order_of(laid.info), (ValueOrder{3, 0, 1}));
  EXPECT_EQ(row_major_order(laid.info), order_of(laid.info));
  laid.strides[1] = 77;  // as LibTorch may leave it
  EXPECT_EQ(order_of(laid.info), row_major_order(laid.info));
}

TEST(ValueOrder, OnlyAnOrderThatFillsMemoryIsDense) {
  const Laid laid({2, 3, 1}, {0, 1, 2});
  for (const ValueOrder& dense : {ValueOrder{3, 1, 0}, ValueOrder{1, 2, 0}}) EXPECT_TRUE(is_dense(dense, laid.info));
  for (const ValueOrder& other : {ValueOrder{3, 1}, ValueOrder{4, 1, 0}, ValueOrder{1, 1, 0}, ValueOrder{3, 1, 1},
                                  ValueOrder{-1, 2, 0}, ValueOrder{0, 1, 0}, ValueOrder{6, 2, 0}})
    EXPECT_FALSE(is_dense(other, laid.info));
}

}  // namespace
}  // namespace castor
