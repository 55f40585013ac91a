// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/index.h>

#include <concepts>
#include <ranges>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace castor {
namespace {

enum class RowId : std::uint32_t {};
enum class ColumnId : std::uint32_t {};
enum class Colour : std::uint8_t { red };

template <typename Table, typename Key>
concept Subscripts = requires(Table table, Key key) { table[key]; };

using Rows = IndexedVector<RowId, int>;

static_assert(IndexType<RowId> && !IndexType<Colour> && !IndexType<std::uint32_t>);
static_assert(!std::is_convertible_v<RowId, ColumnId> && !std::is_convertible_v<std::uint32_t, RowId>);
static_assert(Subscripts<Rows, RowId> && !Subscripts<Rows, ColumnId> && !Subscripts<Rows, std::uint32_t>);
static_assert(std::ranges::bidirectional_range<IdRange<RowId>>);

TEST(Index, IsANumberOnlyWhereAsked) {
  static_assert(index(RowId{7}) == 7 && number(RowId{7}) == 7 && id_at<RowId>(7) == RowId{7});
  EXPECT_LT(RowId{2}, RowId{10});
}

TEST(IdRange, RunsThroughTheIndexes) {
  std::vector<RowId> up, down;
  for (const RowId id : ids<RowId>(3)) up.push_back(id);
  for (const RowId id : ids<RowId>(3).backward()) down.push_back(id);
  EXPECT_EQ(up, (std::vector{RowId{0}, RowId{1}, RowId{2}}));
  EXPECT_EQ(down, (std::vector{RowId{2}, RowId{1}, RowId{0}}));
  EXPECT_EQ(IdRange(RowId{4}, 2).size(), 2u);
  EXPECT_EQ(*IdRange(RowId{4}, 2).begin(), RowId{4});
  for ([[maybe_unused]] const RowId id : ids<RowId>(0)) ADD_FAILURE() << "an index of none";
}

TEST(IndexedVector, ReturnsTheIndexOfANewEntry) {
  Rows rows;
  EXPECT_EQ(rows.push_back(5), RowId{0});
  EXPECT_EQ(rows.push_back(6), RowId{1});
  EXPECT_EQ(rows[RowId{1}], 6);
  EXPECT_TRUE(rows.contains(RowId{1}));
  EXPECT_FALSE(rows.contains(RowId{2}));
  EXPECT_THROW(rows.at(RowId{2}), std::out_of_range);
}

TEST(IndexedVector, LoopsOverEntriesAndOverIndexes) {
  Rows rows = {1, 2, 3};
  for (const RowId id : rows.ids()) rows[id] *= 10;
  int sum = 0;
  for (const int entry : rows) sum += entry;
  EXPECT_EQ(sum, 60);
  EXPECT_EQ(rows, Rows({10, 20, 30}));
}

TEST(IndexedVector, HoldsBits) {
  IndexedVector<RowId, bool> bits(3);
  bits[RowId{1}] = true;
  EXPECT_EQ(bits.entries(), (std::vector<bool>{false, true, false}));
}

}  // namespace
}  // namespace castor
