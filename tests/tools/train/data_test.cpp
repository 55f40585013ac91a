// SPDX-License-Identifier: Apache-2.0
#include "train/data.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

namespace castor::train {
namespace {

/// A fixture with a temporary folder.
class ByteDataTest : public testing::Test {
 protected:
  ByteDataTest() {
    std::string name = (std::filesystem::temp_directory_path() / "castor_data_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~ByteDataTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& text) const {
    const auto path = folder_ / "text";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static std::string message_of(const Result<ByteData>& data) {
    EXPECT_FALSE(data.ok());
    EXPECT_EQ(data.error().kind, ErrorKind::io);
    return data.error().message;
  }

  std::filesystem::path folder_;
};

// Computed with an independent program; the finaliser of 0 alone gives SplitMix64's published first value
// 0xe220a8397b1dcdaf.
TEST(CounterRandom, IsTheSameEverywhere) {
  EXPECT_EQ(counter_random(0, 0, 0), 0x238275bc38fcbe91u);
  EXPECT_EQ(counter_random(1, 2, 3), 0xd0734750fde362b3u);
  EXPECT_EQ(counter_random(1, 3, 2), 0x8f3ed33abd58deb9u);
  EXPECT_EQ(counter_random(7, 0, 1), 0xf69e37ef143706e0u);
}

TEST(CounterRandom, DiffersForNeighbours) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (std::uint64_t sample = 0; sample < 20; ++sample) seen.insert(counter_random(5, step, sample));
  }
  EXPECT_EQ(seen.size(), 400u);
}

TEST(ScaleRandom, CoversTheRangeAndStaysInside) {
  EXPECT_EQ(scale_random(0, 1000), 0u);
  EXPECT_EQ(scale_random(UINT64_MAX, 1000), 999u);
  EXPECT_EQ(scale_random(0x8000000000000000u, 1000), 500u);
  EXPECT_EQ(scale_random(0xd0734750fde362b3u, 1000), 814u);
  EXPECT_EQ(scale_random(UINT64_MAX, 1), 0u);
}

TEST_F(ByteDataTest, ReadsTheBytesAsTheyAre) {
  const std::string text = {'a', 'b', '\0', '\xff', 'e', 'f', 'g', 'h'};
  const ByteData data = ByteData::open(write(text), 3).value();
  EXPECT_EQ(data.n_bytes(), 8u);
  std::vector<std::uint8_t> window(4);
  ASSERT_TRUE(data.read(1, window).ok());
  EXPECT_EQ(window, (std::vector<std::uint8_t>{'b', 0, 255, 'e'}));
}

TEST_F(ByteDataTest, ShortestFileHasOnePlace) {
  const ByteData data = ByteData::open(write("abcd"), 3).value();
  for (std::uint64_t sample = 0; sample < 50; ++sample) EXPECT_EQ(data.offset(1, 2, sample), 0u);
}

TEST_F(ByteDataTest, EveryPlaceComesUp) {
  const ByteData data = ByteData::open(write("abcdefgh"), 3).value();
  std::set<std::uint64_t> offsets;
  for (std::uint64_t sample = 0; sample < 200; ++sample) offsets.insert(data.offset(1, 2, sample));
  EXPECT_EQ(offsets, (std::set<std::uint64_t>{0, 1, 2, 3, 4}));
}

TEST_F(ByteDataTest, MissingFileIsNamed) {
  EXPECT_EQ(message_of(ByteData::open("/no/such/file", 3)),
            "cannot read the data file '/no/such/file': No such file or directory");
}

TEST_F(ByteDataTest, EmptyFileIsRefused) {
  const auto path = write("");
  EXPECT_EQ(message_of(ByteData::open(path, 3)), "cannot train on the data file '" + path.string() + "': it is empty");
}

TEST_F(ByteDataTest, ShortFileSaysHowMuchIsNeeded) {
  const std::string message = message_of(ByteData::open(write("abc"), 3));
  EXPECT_NE(message.find("it has 3 bytes, and one sample of --seq 3 needs 4"), std::string::npos) << message;
}

TEST_F(ByteDataTest, FolderIsRefused) {
  EXPECT_NE(message_of(ByteData::open(folder_, 3)).find("it is not an ordinary file"), std::string::npos);
}

TEST_F(ByteDataTest, FileThatShrinksIsAnError) {
  const auto path = write("abcdefgh");
  const ByteData data = ByteData::open(path, 3).value();
  std::filesystem::resize_file(path, 2);
  std::vector<std::uint8_t> window(4);
  const auto read = data.read(0, window);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("it ends at byte 2 now, it had 8 bytes"), std::string::npos)
      << read.error().message;
}

}  // namespace
}  // namespace castor::train
