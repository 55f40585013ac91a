// SPDX-License-Identifier: Apache-2.0
#include "bench/io/fio_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bench/common/pattern.h"

namespace castor::bench {
namespace {

const IoCase kMixed{Rw::mixed, 1048576, 1048576, 16};

/// The format of fio 3.33, without the fields that are not read.
const char* const kReport = R"(fio: a line of text
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "castor", "error" : 0, "job_runtime" : 2000, "usr_cpu" : 3.5, "sys_cpu" : 6.5,
      "read" : { "io_bytes" : 3000000000, "runtime" : 2000 },
      "write" : { "io_bytes" : 1000000000, "runtime" : 1999 }
    }
  ]
})";

bool has(const std::vector<std::string>& arguments, const std::string& one) {
  return std::find(arguments.begin(), arguments.end(), one) != arguments.end();
}

std::string replaced(const std::string& text, const std::string& part, const std::string& by) {
  std::string other = text;
  return other.replace(other.find(part), part.size(), by);
}

TEST(FioArguments, AreThoseOfTheStoresRequests) {
  const auto arguments = fio_arguments({}, {{"/proc/7/fd/5"}, 1 << 30}, kMixed, 1.5);
  for (const char* one :
       {"--filename=/proc/7/fd/5", "--filesize=1073741824", "--size=1073741824", "--bs=1048576", "--iodepth=16",
        "--rw=rw", "--rwmixread=50", "--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--registerfiles=1",
        "--time_based=1", "--runtime=1500ms", "--allow_file_create=0", "--overwrite=1", "--output-format=json"})
    EXPECT_TRUE(has(arguments, one)) << one;
}

TEST(FioArguments, SeveralDrivesHaveTheirDepthEach) {
  IoCase two = kMixed;
  two.n_drives = 2;
  two.random = true;
  two.rw = Rw::read;
  const auto arguments = fio_arguments({}, {{"/a", "/b"}, 4096}, two, 1);
  for (const char* one : {"--filename=/a:/b", "--filesize=4096", "--size=8192", "--iodepth=32", "--rw=randread"})
    EXPECT_TRUE(has(arguments, one)) << one;
}

TEST(FioArguments, OtherModes) {
  const auto buffered = fio_arguments({"io_uring", false, false}, {{"/a"}, 4096}, kMixed, 0);
  EXPECT_TRUE(has(buffered, "--fixedbufs=0") && has(buffered, "--direct=0"));
  EXPECT_FALSE(has(buffered, "--time_based=1"));
  EXPECT_FALSE(has(fio_arguments({"libaio", false, true}, {{"/a"}, 4096}, kMixed, 1), "--registerfiles=1"));
}

TEST(FioArguments, RequestsGoInBatchesOrOneByOne) {
  FioMode mode;
  mode.pace = Pace::in_batches;
  const auto batches = fio_arguments(mode, {{"/a"}, 4096}, kMixed, 1);
  EXPECT_TRUE(has(batches, "--iodepth_batch_submit=16") && has(batches, "--iodepth_batch_complete_max=16"));
  mode.pace = Pace::one_by_one;
  const auto single = fio_arguments(mode, {{"/a"}, 4096}, kMixed, 1);
  EXPECT_TRUE(has(single, "--iodepth_batch_submit=1") && has(single, "--iodepth_batch_complete_max=1"));
  EXPECT_TRUE(has(single, "--iodepth=16"));
}

TEST(ParseFio, ReadsBytesTimeAndCpu) {
  const FioReport report = parse_fio(kReport).value();
  EXPECT_EQ(report.version, "fio-3.33");
  EXPECT_EQ(report.sample.n_bytes, 4000000000u);
  EXPECT_DOUBLE_EQ(report.sample.seconds, 2);
  EXPECT_DOUBLE_EQ(report.sample.cpu_s, 0.2);
  EXPECT_DOUBLE_EQ(report.sample.gb_per_s(), 2);
}

TEST(ParseFio, WhatCannotBeUsedIsAnError) {
  const std::string whole = kReport;
  for (const std::string& text :
       {std::string(), std::string("fio: no such file"), whole.substr(0, whole.size() / 2), std::string("{}"),
        replaced(whole, "\"error\" : 0", "\"error\" : 5"), replaced(whole, "2000, \"usr_cpu\"", "\"x\", \"usr_cpu\""),
        replaced(replaced(whole, "3000000000", "0"), "1000000000", "0"),
        replaced(replaced(whole, "\"runtime\" : 2000", "\"runtime\" : 0"), "1999", "0")})
    EXPECT_EQ(parse_fio(text).error().kind, ErrorKind::failed) << text;
}

TEST(FioEnvironment, KeepsWhatTheUserAskedOfMalloc) {
  EXPECT_EQ(fio_environment(""), "GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
  EXPECT_EQ(fio_environment("glibc.malloc.arena_max=1"),
            "GLIBC_TUNABLES=glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1");
}

class Pattern : public testing::TestWithParam<std::size_t> {
 protected:
  std::vector<std::byte> filled(std::uint64_t key, std::uint64_t version) const {
    std::vector<std::byte> bytes(GetParam());
    fill_pattern(view(bytes), key, version);
    return bytes;
  }
  static BufferView view(std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }
};

TEST_P(Pattern, IsFoundWholeAgain) {
  auto bytes = filled(3, 4);
  EXPECT_FALSE(find_difference(view(bytes), 3, 4).has_value());
}

TEST_P(Pattern, EveryChangedByteIsFound) {
  for (std::size_t at = 0; at < GetParam(); ++at) {
    auto bytes = filled(3, 4);
    bytes[at] ^= std::byte{1};
    EXPECT_EQ(find_difference(view(bytes), 3, 4), std::optional<std::uint64_t>(at));
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, Pattern, testing::Values(0, 1, 7, 8, 9, 16, 100, 515));

TEST(PatternOfAPage, OtherKeysVersionsAndPlacesDiffer) {
  std::vector<std::byte> bytes(4096);
  fill_pattern({bytes.data(), bytes.size()}, 3, 4);
  EXPECT_TRUE(find_difference({bytes.data(), bytes.size()}, 4, 3).has_value());
  EXPECT_TRUE(find_difference({bytes.data(), bytes.size()}, 3, 5).has_value());
  EXPECT_TRUE(find_difference({bytes.data() + 8, bytes.size() - 8}, 3, 4).has_value());
}

}  // namespace
}  // namespace castor::bench
