// SPDX-License-Identifier: Apache-2.0
#include "tuning/io_tuning.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <castor/io/tensor_store.h>
#include <castor/memory/bytes.h>

#include "files/folder_ops.h"
#include "store/manifest.h"
#include "store/store_format.h"
#include "../../support/scratch_folder.h"

namespace castor {
namespace {

constexpr IoTuning kTuning{1048576, 16, 4, 3300000000, 1600000000};

/// Sets a variable of the environment and restores its earlier value.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* earlier = std::getenv(name)) earlier_ = earlier;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { earlier_ ? setenv(name_, earlier_->c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> earlier_;
};

class IoTuningFile : public testing::Test {
 protected:
  std::string text() const {
    std::ifstream file(io_tuning_path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const {
    std::filesystem::create_directories(io_tuning_path().parent_path());
    std::ofstream(io_tuning_path()) << text;
  }
  std::string drive() const { return drive_id(folder_.path()).value(); }
  /// Expects that no tuning is loaded, that one sentence says why, and that a new one can be saved.
  void expect_ignored(const std::string& content, const std::string& why) const {
    write(content);
    const auto loaded = load_tuning(folder_.path()).value();
    EXPECT_FALSE(loaded.tuning.has_value()) << content;
    EXPECT_NE(loaded.warning.find(why), std::string::npos) << loaded.warning;
    EXPECT_NE(loaded.warning.find(io_tuning_path().string()), std::string::npos) << loaded.warning;
    save_tuning(folder_.path(), kTuning).value();
    EXPECT_TRUE(load_tuning(folder_.path()).value().tuning.has_value());
  }

  test::ScratchFolder folder_;
  ScopedVariable cache_{"XDG_CACHE_HOME", folder_.path()};
};

TEST_F(IoTuningFile, WhatIsSavedIsLoaded) {
  save_tuning(folder_.path(), kTuning).value();
  const auto loaded = load_tuning(folder_.path()).value();
  ASSERT_TRUE(loaded.tuning.has_value());
  EXPECT_EQ(loaded.tuning->block_bytes, 1048576u);
  EXPECT_EQ(loaded.tuning->depth, 16u);
  EXPECT_EQ(loaded.tuning->n_threads, 4u);
  EXPECT_EQ(loaded.tuning->read_bytes_per_s, 3300000000u);
  EXPECT_EQ(loaded.tuning->write_bytes_per_s, 1600000000u);
  EXPECT_EQ(loaded.warning, "");
}

TEST_F(IoTuningFile, WithoutAFileThereIsNothingToWarnOf) {
  const auto loaded = load_tuning(folder_.path()).value();
  EXPECT_FALSE(loaded.tuning.has_value());
  EXPECT_EQ(loaded.warning, "");
}

TEST_F(IoTuningFile, APersonCanReadIt) {
  save_tuning(folder_.path(), kTuning).value();
  const std::string all = text();
  EXPECT_EQ(all.rfind("castor-io-tuning 1\n#", 0), 0u);
  EXPECT_NE(all.find("\n" + drive() +
                     " block_bytes=1048576 depth=16 n_threads=4 read_bytes_per_s=3300000000 "
                     "write_bytes_per_s=1600000000\n"),
            std::string::npos)
      << all;
}

TEST_F(IoTuningFile, LiesInTheCacheFolder) {
  EXPECT_EQ(io_tuning_path().string(), folder_.path() + "/castor/io-tuning");
  const ScopedVariable none("XDG_CACHE_HOME", "");
  const ScopedVariable home("HOME", "/home/someone");
  EXPECT_EQ(io_tuning_path().string(), "/home/someone/.cache/castor/io-tuning");
}

TEST_F(IoTuningFile, WithoutAHomeNothingIsRememberedAndThatIsSaid) {
  const ScopedVariable none("XDG_CACHE_HOME", "");
  const ScopedVariable home("HOME", "");
  EXPECT_FALSE(load_tuning(folder_.path()).value().tuning.has_value());
  EXPECT_NE(save_tuning(folder_.path(), kTuning).error().message.find("XDG_CACHE_HOME"), std::string::npos);
}

TEST_F(IoTuningFile, TheNewerOneReplacesTheOlder) {
  save_tuning(folder_.path(), {262144, 4, 2, 1, 1}).value();
  save_tuning(folder_.path(), kTuning).value();
  EXPECT_EQ(load_tuning(folder_.path()).value().tuning->depth, 16u);
  EXPECT_EQ(parse_tunings(text()).value().size(), 1u);
}

TEST_F(IoTuningFile, OtherDrivesStayAndAreNotTaken) {
  write("castor-io-tuning 1\n9:9-1.2-3 block_bytes=4096 depth=1 n_threads=1 read_bytes_per_s=7 write_bytes_per_s=8\n");
  EXPECT_FALSE(load_tuning(folder_.path()).value().tuning.has_value());
  save_tuning(folder_.path(), kTuning).value();
  const auto table = parse_tunings(text()).value();
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table.at("9:9-1.2-3").read_bytes_per_s, 7u);
}

TEST_F(IoTuningFile, AnotherSizeUnderTheSameNumberIsAnotherDrive) {
  const std::string id = drive();
  const std::string larger = id.substr(0, id.rfind('-') + 1) + "1";
  write("castor-io-tuning 1\n" + larger +
        " block_bytes=4096 depth=1 n_threads=1 read_bytes_per_s=7 write_bytes_per_s=8\n");
  EXPECT_FALSE(load_tuning(folder_.path()).value().tuning.has_value());
}

TEST_F(IoTuningFile, DamagedFilesAreIgnoredWithOneSentence) {
  const std::string first = "castor-io-tuning 1\n";
  const std::string line = drive() + " block_bytes=4096 depth=1 n_threads=1 read_bytes_per_s=7 write_bytes_per_s=8";
  expect_ignored("", "line 1");
  expect_ignored("castor-io-tuning 2\n" + line + "\n", "line 1");
  expect_ignored(
      "\x7f"
      "ELF",
      "line 1");
  expect_ignored(first + line, "cut short");
  expect_ignored(first + line + " more=1\n", "line 2");
  expect_ignored(first + drive() + " block_bytes=4096 depth=1\n", "line 2");
  expect_ignored(first + drive() + "\n", "line 2");
  for (const char* value : {"-1", "x", "", "0", "4294967297", "99999999999999999999", "1x"}) {
    expect_ignored(
        first + drive() + " block_bytes=4096 depth=" + value + " n_threads=1 read_bytes_per_s=7 write_bytes_per_s=8\n",
        "line 2");
  }
  expect_ignored(std::string(2 << 20, '#'), "at most 1048576");
}

TEST_F(IoTuningFile, ValuesOutOfRangeAreNotSaved) {
  for (const IoTuning& tuning : {IoTuning{}, IoTuning{1048577, 16, 4, 1, 1}, IoTuning{1048576, 0, 4, 1, 1},
                                 IoTuning{1048576, 16, 0, 1, 1}, IoTuning{2048, 16, 4, 1, 1}}) {
    EXPECT_EQ(save_tuning(folder_.path(), tuning).error().kind, ErrorKind::usage);
  }
  EXPECT_FALSE(std::filesystem::exists(io_tuning_path()));
}

/// The block size in the manifest of the store that `options` open.
std::uint64_t block_bytes_of(TensorStoreOptions options) {
  const test::ScratchFolder folder;
  options.folders = {folder.path()};
  options.durability = Durability::commit;
  TensorStore::open(options).value()->commit(1).wait().value();
  const auto bytes = SystemFolderOps().read_file(folder.path() + "/" + kManifestName, kMiB).value();
  return decode_manifest(*bytes, kManifestName).value().block_bytes;
}

TEST_F(IoTuningFile, AStoreTakesWhatIsRememberedUnlessItIsTold) {
  EXPECT_EQ(block_bytes_of({}), 1048576u);
  save_tuning(folder_.path(), {65536, 4, 2, 1, 1}).value();
  EXPECT_EQ(block_bytes_of({}), 65536u);
  TensorStoreOptions told;
  told.block_bytes = 4096;
  EXPECT_EQ(block_bytes_of(told), 4096u);
}

TEST_F(IoTuningFile, AStoreSaysThatWhatIsRememberedIsOfNoUse) {
  write("damaged");
  TensorStoreOptions options;
  options.folders = {folder_.path()};
  const auto warnings = TensorStore::open(options).value()->warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(io_tuning_path().string()), std::string::npos) << warnings[0];
}

TEST_F(IoTuningFile, NothingButTheFileIsLeft) {
  save_tuning(folder_.path(), kTuning).value();
  save_tuning(folder_.path(), kTuning).value();
  std::size_t n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(io_tuning_path().parent_path()))
    n_files += entry.is_regular_file();
  EXPECT_EQ(n_files, 1u);
}

TEST_F(IoTuningFile, AFolderThatCannotBeWrittenIsAnErrorWithItsName) {
  std::ofstream(folder_.path() + "/castor") << "in the way";
  const auto saved = save_tuning(folder_.path(), kTuning);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().kind, ErrorKind::io);
  EXPECT_NE(saved.error().message.find(io_tuning_path().string()), std::string::npos) << saved.error().message;
}

TEST_F(IoTuningFile, AMissingFolderIsAnError) {
  EXPECT_EQ(load_tuning(folder_.path() + "/none").error().kind, ErrorKind::io);
  EXPECT_EQ(save_tuning(folder_.path() + "/none", kTuning).error().kind, ErrorKind::io);
}

TEST_F(IoTuningFile, TheIdBeginsWithTheDeviceNumber) {
  struct stat facts {};
  ASSERT_EQ(::stat(folder_.path().c_str(), &facts), 0);
  std::ostringstream number;
  number << major(facts.st_dev) << ':' << minor(facts.st_dev) << '-';
  EXPECT_EQ(drive().rfind(number.str(), 0), 0u) << drive();
  EXPECT_EQ(drive(), drive_id(folder_.path()).value());
}

}  // namespace
}  // namespace castor
