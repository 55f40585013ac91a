// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/tensor_state.h>
#include <castor/chunk/tensor_table.h>
#include <castor/memory/result.h>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace castor {
namespace {

using S = TensorState;
constexpr S kStates[] = {S::free, S::hold, S::compute, S::hold_after_bwd, S::ready_for_reduce};

/// The transitions of the header's table, written once more by hand.
const std::set<std::pair<S, S>> kLegal = {
    {S::free, S::hold},
    {S::hold, S::free},
    {S::hold, S::compute},
    {S::hold, S::ready_for_reduce},
    {S::compute, S::hold},
    {S::compute, S::hold_after_bwd},
    {S::hold_after_bwd, S::hold},
    {S::hold_after_bwd, S::compute},
    {S::hold_after_bwd, S::ready_for_reduce},
    {S::ready_for_reduce, S::hold},
    {S::ready_for_reduce, S::compute},
};

TEST(TensorState, EveryPairIsAllowedOrRefusedAsTheTableSays) {
  for (const S from : kStates)
    for (const S to : kStates)
      EXPECT_EQ(allowed(from, to), kLegal.count({from, to}) == 1) << name(from) << " to " << name(to);
}

ChunkLayout two_chunks() {
  const TensorSpec specs[] = {{10, DType::bf16, true}, {20, DType::bf16, true}, {30, DType::f32, true}};
  return plan_layout(specs, {});
}

TEST(TensorTable, CountsTheStatesOfEachChunk) {
  const ChunkLayout layout = two_chunks();
  TensorTable table(layout);
  table.set(0, S::hold);
  table.set(0, S::compute);
  table.set(2, S::hold);
  EXPECT_EQ(table.count(0, S::compute), 1u);
  EXPECT_EQ(table.count(0, S::free), 1u);
  EXPECT_EQ(table.count(0, S::hold), 0u);
  EXPECT_EQ(table.count(1, S::hold), 1u);
}

TEST(TensorTable, StayingIsNoTransition) {
  const ChunkLayout layout = two_chunks();
  TensorTable table(layout);
  EXPECT_NO_THROW(table.set(1, S::free));
  EXPECT_EQ(table.count(0, S::free), 2u);
}

TEST(TensorTable, AnIllegalTransitionNamesTensorAndStates) {
  const ChunkLayout layout = two_chunks();
  TensorTable table(layout);
  try {
    table.set(1, S::compute);
    FAIL() << "FREE to COMPUTE was accepted";
  } catch (const ContractViolation& e) {
    EXPECT_EQ(std::string(e.what()), "tensor 1 cannot go from FREE to COMPUTE");
  }
  EXPECT_EQ(table.state(1), S::free);
}

}  // namespace
}  // namespace castor
