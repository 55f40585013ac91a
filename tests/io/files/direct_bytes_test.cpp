// SPDX-License-Identifier: Apache-2.0
#include <castor/io/direct_file.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"

namespace castor::test {
namespace {

/// Runs on a file past the page cache (false) and on one through it (true).
class DirectBytes : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) file_.use_buffered("a test");
    if (!GetParam() && !file_.direct()) GTEST_SKIP() << file_.fallback_reason();
  }

  std::vector<std::byte> contents() const {
    const TestBuffer all(file_.size_bytes().value());
    file_.read_bytes(0, all.view()).value();
    return {all.data(), all.data() + all.view().n_bytes};
  }

  ScratchFolder folder_;
  DirectFile file_ = DirectFile::create_unnamed(folder_.path()).value();
};

TEST_P(DirectBytes, NeighboursStayAsTheyAre) {
  const TestBuffer old_bytes(16384, 1), new_bytes(5000, 2);
  ASSERT_TRUE(file_.write_bytes(0, old_bytes.view()).ok());
  ASSERT_TRUE(file_.write_bytes(1001, new_bytes.view()).ok());
  const auto now = contents();
  ASSERT_EQ(now.size(), 16384u);
  for (std::uint64_t i = 0; i < now.size(); ++i) {
    const bool is_new = i >= 1001 && i < 6001;
    ASSERT_EQ(now[i], is_new ? TestBuffer::at(2, i - 1001) : TestBuffer::at(1, i)) << i;
  }
}

TEST_P(DirectBytes, AFileIsNoLongerThanWhatWasWritten) {
  const TestBuffer bytes(777, 1);
  ASSERT_TRUE(file_.write_bytes(100, bytes.view()).ok());
  EXPECT_EQ(file_.size_bytes().value(), 877u);
  ASSERT_TRUE(file_.write_bytes(5, bytes.view()).ok());
  EXPECT_EQ(file_.size_bytes().value(), 877u);
}

TEST_P(DirectBytes, AReadBeyondTheEndIsAnErrorThatSaysHowFarItCame) {
  const TestBuffer bytes(1000, 1), in(1000);
  ASSERT_TRUE(file_.write_bytes(0, bytes.view()).ok());
  EXPECT_TRUE(file_.read_bytes(0, in.view()).ok());
  const auto refused = file_.read_bytes(500, in.view());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_EQ(refused.error().message.find("read of 1000 B (1000 bytes) at offset 500 of " + file_.path()), 0u)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("stopped after 500 bytes: the file ends there"), std::string::npos)
      << refused.error().message;
}

TEST_P(DirectBytes, NoBytesAreNoTransfer) {
  EXPECT_TRUE(file_.write_bytes(123, {nullptr, 0}).ok());
  EXPECT_TRUE(file_.read_bytes(123, {nullptr, 0}).ok());
  EXPECT_EQ(file_.size_bytes().value(), 0u);
}

TEST_P(DirectBytes, OffsetsThatNoFileHasAreRefused) {
  const TestBuffer bytes(4096, 1);
  EXPECT_FALSE(file_.write_bytes(~0ull - 100, bytes.view()).ok());
  EXPECT_FALSE(file_.read_bytes((1ull << 63) - 4096, bytes.view()).ok());
}

TEST_P(DirectBytes, AgreesWithANaiveModel) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<std::byte> model;
  const TestBuffer room(96 * 1024);
  for (int step = 0; step < 400; ++step) {
    // Half of all offsets, lengths and addresses are whole sectors, so that some bytes move without the bounce page.
    const auto odd = [&](std::uint64_t below) {
      const auto n = random() % below;
      return random() % 2 == 0 ? n : n / 512 * 512;
    };
    const std::uint64_t offset = odd(128 * 1024), n_bytes = odd(64 * 1024), address = odd(16 * 1024);
    const BufferView bytes{room.data() + address, n_bytes};
    if (random() % 2 == 0) {
      for (std::uint64_t i = 0; i < n_bytes; ++i) bytes.data[i] = static_cast<std::byte>(random());
      ASSERT_TRUE(file_.write_bytes(offset, bytes).ok());
      if (n_bytes > 0) model.resize(std::max<std::size_t>(model.size(), offset + n_bytes));
      if (n_bytes > 0) std::memcpy(model.data() + offset, bytes.data, n_bytes);
      ASSERT_EQ(file_.size_bytes().value(), model.size());
      continue;
    }
    room.fill(static_cast<std::uint64_t>(step));
    const bool inside = n_bytes == 0 || offset + n_bytes <= model.size();
    ASSERT_EQ(file_.read_bytes(offset, bytes).ok(), inside) << offset << " " << n_bytes << " " << address;
    if (!inside) continue;
    ASSERT_TRUE(std::equal(bytes.data, bytes.data + n_bytes, model.begin() + static_cast<std::ptrdiff_t>(offset)));
    for (std::uint64_t i = 0; i < address; ++i) ASSERT_EQ(room.data()[i], TestBuffer::at(step, i));
    for (std::uint64_t i = address + n_bytes; i < room.view().n_bytes; ++i)
      ASSERT_EQ(room.data()[i], TestBuffer::at(step, i));
  }
  EXPECT_TRUE(contents() == model);
}

INSTANTIATE_TEST_SUITE_P(Ways, DirectBytes, ::testing::Values(false, true),
                         [](const auto& way) { return way.param ? "Buffered" : "Direct"; });

}  // namespace
}  // namespace castor::test
