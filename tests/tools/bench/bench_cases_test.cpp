// SPDX-License-Identifier: Apache-2.0
#include "bench/io/cases.h"

#include <gtest/gtest.h>

#include <set>

namespace castor::bench {
namespace {

IoBenchOptions options() {
  IoBenchOptions one;
  one.folders = {"/d"};
  return one;
}

std::vector<std::string> names(const std::vector<IoCase>& cases) {
  std::vector<std::string> all;
  for (const IoCase& one : cases) all.push_back(name_of(one));
  return all;
}

TEST(PlanCases, TheUsualOnes) {
  EXPECT_EQ(names(plan_cases(options())),
            (std::vector<std::string>{"read 1MiB", "write 1MiB", "mixed 1MiB", "read 1MiB cost of checksums",
                                      "write 1MiB cost of checksums", "read 1MiB unchecked", "write 1MiB unchecked",
                                      "mixed 1MiB unchecked", "read 64KiB", "write 64KiB"}));
}

TEST(PlanCases, WhatIsNamedReplacesThem) {
  IoBenchOptions some = options();
  some.rw = {Rw::write};
  EXPECT_EQ(names(plan_cases(some)), std::vector<std::string>{"write 1MiB"});
  some.checksums = false;
  some.random = true;
  EXPECT_EQ(names(plan_cases(some)), std::vector<std::string>{"write 1MiB unchecked random"});
}

TEST(PlanCases, SweepsAreEveryCombination) {
  IoBenchOptions sweep = options();
  sweep.sizes = {1000, kMiB};
  sweep.blocks = {65536, kMiB};
  sweep.depths = {4, 16};
  sweep.rw = {Rw::read, Rw::mixed};
  const auto all = names(plan_cases(sweep));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 16u);
  EXPECT_EQ(all[0], "read 1000 block 64KiB depth 4");
  EXPECT_EQ(all[15], "mixed 1MiB");
}

TEST(PlanCases, TheNullEngineMakesNoChecksums) {
  IoBenchOptions null = options();
  null.engine = "null";
  for (const IoCase& one : plan_cases(null)) EXPECT_FALSE(one.checksums || one.against_unchecked);
}

TEST(PlanCases, EachFolderIsADriveWithItsOwnDepth) {
  IoBenchOptions two = options();
  two.folders = {"/a", "/b"};
  const IoCase one = plan_cases(two)[0];
  EXPECT_EQ(one.total_depth(), 32u);
  EXPECT_EQ(one.in_flight_bytes(), 33554432u);
}

TEST(IoCase, RequestsAreBlocksOrWholePagesOfSmallerTensors) {
  EXPECT_EQ((IoCase{Rw::read, 5 * kMiB, kMiB, 16}).request_bytes(), 1048576u);
  EXPECT_EQ((IoCase{Rw::read, 65536, kMiB, 16}).request_bytes(), 65536u);
  EXPECT_EQ((IoCase{Rw::read, 1, kMiB, 16}).request_bytes(), 4096u);
  EXPECT_EQ((IoCase{Rw::read, 4097, kMiB, 16}).request_bytes(), 8192u);
}

TEST(IoCase, ALittleMoreThanTheDrivesHaveIsUnderWay) {
  EXPECT_EQ((IoCase{Rw::read, kMiB, kMiB, 16}).n_in_flight(), 18u);
  EXPECT_EQ((IoCase{Rw::read, 8 * kMiB, kMiB, 16}).n_in_flight(), 4u);
  EXPECT_EQ((IoCase{Rw::read, kGiB, kMiB, 16}).n_in_flight(), 3u);
  EXPECT_EQ((IoCase{Rw::read, 65536, kMiB, 16}).n_in_flight(), 32u);
}

TEST(IoCase, WantedShares) {
  const auto wanted = [](Rw rw, std::uint64_t n_bytes) { return IoCase{rw, n_bytes, kMiB, 16}.wanted_share(); };
  EXPECT_EQ(wanted(Rw::read, kMiB), 0.97);
  EXPECT_EQ(wanted(Rw::write, kGiB), 0.97);
  EXPECT_EQ(wanted(Rw::mixed, kMiB), 0.95);
  EXPECT_EQ(wanted(Rw::read, 65536), 0.85);
  EXPECT_EQ(wanted(Rw::read, 65535), 0);
}

TEST(ExactSize, IsWhatTheCommandLineReads) {
  for (const auto& [n_bytes, text] : std::vector<std::pair<std::uint64_t, std::string>>{
           {0, "0"}, {1, "1"}, {1000, "1000"}, {1024, "1KiB"}, {1536, "1536"}, {3 * kMiB, "3MiB"}, {kGiB, "1GiB"}}) {
    EXPECT_EQ(exact_size(n_bytes), text);
    EXPECT_EQ(parse_bytes(text).value(), n_bytes);
  }
}

}  // namespace
}  // namespace castor::bench
