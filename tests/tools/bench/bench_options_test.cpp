// SPDX-License-Identifier: Apache-2.0
#include "bench/io/options.h"

#include <gtest/gtest.h>

namespace castor::bench {
namespace {

Result<IoBenchOptions> read_bench(cli::Arguments arguments) {
  CASTOR_ASSIGN(const cli::Values values, cli::parse(io_syntax(), arguments));
  return read_io_options(values);
}

Result<IoBenchOptions> read_with_dir(const std::string& more) {
  return read_bench(cli::split("--dir /d" + (more.empty() ? "" : " " + more), ' '));
}

std::string message_of(const Result<IoBenchOptions>& options) {
  EXPECT_FALSE(options.ok());
  if (options.ok()) return "";
  EXPECT_EQ(options.error().kind, ErrorKind::usage);
  return options.error().message;
}

TEST(ReadIoOptions, WithoutOptionsTheUsualCasesAreMeant) {
  const IoBenchOptions options = read_with_dir("").value();
  EXPECT_EQ(options.folders, std::vector<std::string>{"/d"});
  EXPECT_TRUE(options.usual());
  EXPECT_FALSE(options.random || options.verify || options.tune || options.span_bytes);
  EXPECT_EQ(options.engine, "best");
  EXPECT_EQ(options.fio, "fio");
  EXPECT_EQ(options.runs, 3u);
  EXPECT_EQ(options.seconds, 1.0);
}

TEST(ReadIoOptions, EveryOptionArrives) {
  const IoBenchOptions options =
      read_bench(
          cli::split("--dir /a,/b --sizes 1000,2MiB --blocks 4KiB,1GiB --depths 1,4096 --rw mixed,read --order random "
                     "--engine threads --checksums off --verify --runs 7 --seconds 0.5 --span 3GiB --fio /x/fio --tune",
                     ' '))
          .value();
  EXPECT_EQ(options.folders, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(options.sizes, (std::vector<std::uint64_t>{1000, 2097152}));
  EXPECT_EQ(options.blocks, (std::vector<std::uint64_t>{4096, 1073741824}));
  EXPECT_EQ(options.depths, (std::vector<unsigned>{1, 4096}));
  EXPECT_EQ(options.rw, (std::vector<Rw>{Rw::mixed, Rw::read}));
  EXPECT_TRUE(options.random && options.verify && options.tune);
  EXPECT_EQ(options.engine, "threads");
  EXPECT_EQ(options.checksums, std::optional(false));
  EXPECT_EQ(options.runs, 7u);
  EXPECT_EQ(options.seconds, 0.5);
  EXPECT_EQ(options.span_bytes, std::optional<std::uint64_t>(3221225472));
  EXPECT_EQ(options.fio, "/x/fio");
  EXPECT_FALSE(options.usual());
}

TEST(ReadIoOptions, MoreArgumentsForFio) {
  const IoBenchOptions options = read_bench({"--dir", "/d", "--fio-args", "--nice=1 --gtod_reduce=1"}).value();
  EXPECT_EQ(options.fio_arguments, (std::vector<std::string>{"--nice=1", "--gtod_reduce=1"}));
}

TEST(ReadIoOptions, AFolderMustBeNamed) {
  EXPECT_EQ(message_of(read_bench({})).rfind("--dir is missing;", 0), 0u);
  EXPECT_NE(message_of(read_bench({"--dir", "/a,,/b"})).find("--dir"), std::string::npos);
}

TEST(ReadIoOptions, ValuesOutOfRangeAreRefusedByName) {
  const std::vector<std::string> wrong = {
      "--sizes 0",     "--sizes x",   "--sizes 2TiB",  "--blocks 4095",   "--blocks 12KiB",
      "--blocks 2GiB", "--depths 0",  "--depths 4097", "--depths -1",     "--depths 1.5",
      "--rw reed",     "--order up",  "--engine aio",  "--checksums yes", "--runs 0",
      "--runs 1001",   "--seconds 0", "--seconds nan", "--seconds 3601",  "--span much",
  };
  for (const std::string& words : wrong) {
    const std::string message = message_of(read_with_dir(words));
    EXPECT_EQ(message.rfind(words.substr(0, words.find(' ')), 0), 0u) << words << ": " << message;
  }
}

TEST(ReadIoOptions, MemoryIsWalkedThroughByTheBareLoopAlone) {
  EXPECT_EQ(read_with_dir("--memory 1GiB").value().memory_bytes, 1073741824u);
  EXPECT_NE(message_of(read_with_dir("--memory 1GiB --fio /x/fio")).find("--memory"), std::string::npos);
}

TEST(ReadIoOptions, TheNullEngineHasNothingToCheck) {
  EXPECT_NE(message_of(read_with_dir("--engine null --verify")).find("--verify"), std::string::npos);
  EXPECT_NE(message_of(read_with_dir("--engine null --checksums on")).find("--checksums"), std::string::npos);
  EXPECT_TRUE(read_with_dir("--engine null --checksums off").ok());
}

}  // namespace
}  // namespace castor::bench
