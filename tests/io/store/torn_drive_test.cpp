// SPDX-License-Identifier: Apache-2.0
// The model of a power cut (tests/support/drives/torn_drive.h): the bytes it may lose and must keep, and that it finds
// a missing sync.
#include "../../support/drives/torn_drive.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <castor/io/direct_file.h>
#include <castor/io/io_engine.h>

#include "files/folder_ops.h"
#include "../../support/file_text.h"
#include "../../support/test_buffer.h"
#include "../../support/drives/torn_engine.h"
#include "../../support/drives/torn_folder_ops.h"

namespace castor::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSeeds = 300;

/// `n_sectors` sectors of `letter` and half of one.
std::string sectors_of(char letter, std::size_t n_sectors) { return std::string(512 * n_sectors + 256, letter); }

class TornDriveTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return root_.path() + "/" + name; }
  void make_file(const std::string& name, const std::string& text) {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  /// Begins the log; the files that exist are on the drive.
  TornFolderOps& begin() {
    drive_.emplace(root_.path());
    ops_.emplace(system_, *drive_);
    return *ops_;
  }
  ino_t inode(const std::string& name) const {
    struct stat facts {};
    EXPECT_EQ(::stat(path(name).c_str(), &facts), 0);
    return facts.st_ino;
  }
  /// All texts that `name` may hold after a cut at `moment`.
  std::set<std::optional<std::string>> outcomes(const std::string& name, std::size_t moment) const {
    std::set<std::optional<std::string>> found;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
      found.insert(text_of(drive_->crash(seed, moment)->path() + "/" + name));
    return found;
  }

  ScratchFolder root_;
  SystemFolderOps system_;
  std::optional<TornDrive> drive_;
  std::optional<TornFolderOps> ops_;
};

using Texts = std::set<std::optional<std::string>>;

TEST_F(TornDriveTest, WhatWasThereAtFirstIsThereAlways) {
  fs::create_directory(path("sub"));
  make_file("a", "A");
  make_file("sub/b", "B");
  begin();
  const auto state = drive_->crash(1, 0);
  EXPECT_EQ(text_of(state->path() + "/a"), "A");
  EXPECT_EQ(text_of(state->path() + "/sub/b"), "B");
  EXPECT_EQ(drive_->n_moments(), 0u);
}

TEST_F(TornDriveTest, AWriteThatWasNotSyncedMayReachTheDriveSectorBySector) {
  make_file("a", std::string(1024, 'o'));
  begin();
  drive_->note_write(inode("a"), 0, bytes_of(std::string(1024, 'n')));
  const std::string o(512, 'o'), n(512, 'n');
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{o + o, o + n, n + o, n + n}));
}

TEST_F(TornDriveTest, ASectorIsNeverTorn) {
  make_file("a", std::string(1024, 'o'));
  begin();
  drive_->note_write(inode("a"), 500, bytes_of(std::string(24, 'n')));  // twelve bytes in either sector
  const std::string left(500, 'o'), right(500, 'o'), o(12, 'o'), n(12, 'n');
  EXPECT_EQ(outcomes("a", drive_->n_moments()),
            (Texts{left + o + o + right, left + o + n + right, left + n + o + right, left + n + n + right}));
}

TEST_F(TornDriveTest, ALengthMayBeLostAndWhatWasNotWrittenReadsAsZeros) {
  make_file("a", "");
  begin();
  drive_->note_write(inode("a"), 512, bytes_of("n"));
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"", std::string(513, '\0'), std::string(512, '\0') + "n"}));
}

TEST_F(TornDriveTest, ACutFileMayBeLongStill) {
  make_file("a", "long");
  begin();
  drive_->note_length(inode("a"), 2);
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"lo", "long"}));
}

TEST_F(TornDriveTest, ASyncKeepsWhatHadComeBack) {
  make_file("a", "1");
  begin();
  drive_->note_write(inode("a"), 0, bytes_of("2"));
  drive_->note_sync(inode("a"));
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"2"}));
  EXPECT_EQ(outcomes("a", drive_->n_moments() - 1), (Texts{"1", "2"}));  // the sync had not returned
  drive_->note_write(inode("a"), 0, bytes_of("3"));
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"2", "3"}));
}

TEST_F(TornDriveTest, ASyncKeepsNothingThatWasStillUnderWay) {
  make_file("a", "11");
  begin();
  const auto late = drive_->begin_write(inode("a"), 0, bytes_of("2"));
  const auto sync = drive_->begin_sync(inode("a"));
  const auto later = drive_->begin_write(inode("a"), 1, bytes_of("3"));
  drive_->end(late);
  drive_->end(later);
  drive_->end(sync);
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"11", "21", "13", "23"}));
  drive_->note_sync(inode("a"));
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"23"}));
}

TEST_F(TornDriveTest, ASyncIsOfOneFile) {
  make_file("a", "1");
  make_file("b", "1");
  begin();
  drive_->note_write(inode("a"), 0, bytes_of("2"));
  drive_->note_sync(inode("b"));
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"1", "2"}));
}

TEST_F(TornDriveTest, ANewNameIsThereForCertainAfterASyncOfItsFolder) {
  auto& ops = begin();
  ASSERT_TRUE(ops.write_file(path("a"), bytes_of("A")).ok());
  ASSERT_TRUE(ops.sync_file(path("a")).ok());
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{std::nullopt, "A"}));
  ASSERT_TRUE(ops.sync_folder(root_.path()).ok());
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"A"}));
}

TEST_F(TornDriveTest, ARenameIsTwoNamesAndEitherMayBeOld) {
  make_file("a", "A");
  make_file("b", "B");
  auto& ops = begin();
  ASSERT_TRUE(ops.rename(path("b"), path("a")).ok());
  Texts found;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto state = drive_->crash(seed, drive_->n_moments());
    found.insert(text_of(state->path() + "/a").value() + text_of(state->path() + "/b").value_or("-"));
  }
  EXPECT_EQ(found, (Texts{"AB", "A-", "BB", "B-"}));
  ASSERT_TRUE(ops.sync_folder(root_.path()).ok());
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"B"}));
  EXPECT_EQ(outcomes("b", drive_->n_moments()), (Texts{std::nullopt}));
}

TEST_F(TornDriveTest, TheChangesOfANameComeInTheirOrder) {
  auto& ops = begin();
  for (const char* text : {"1", "2", "3"}) {
    ASSERT_TRUE(ops.write_file(path("new"), bytes_of(text)).ok());
    ASSERT_TRUE(ops.sync_file(path("new")).ok());
    ASSERT_TRUE(ops.rename(path("new"), path("a")).ok());
    ASSERT_TRUE(ops.write_file(path("other"), bytes_of(text)).ok());  // so that no inode is used twice
  }
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{std::nullopt, "1", "2", "3"}));
  ASSERT_TRUE(ops.remove(path("a")).ok());
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{std::nullopt, "1", "2", "3"}));
  ASSERT_TRUE(ops.sync_folder(root_.path()).ok());
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{std::nullopt}));
}

TEST_F(TornDriveTest, AFileThatSomebodyElseCreatedIsFound) {
  begin();
  make_file("a", "");
  drive_->note_write(inode("a"), 0, bytes_of("A"));
  drive_->note_sync(inode("a"));
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{std::nullopt, "A"}));
  drive_->note_sync_folder(root_.path());
  EXPECT_EQ(outcomes("a", drive_->n_moments()), (Texts{"A"}));
}

TEST_F(TornDriveTest, WithoutLossItHoldsWhatTheFolderHolds) {
  fs::create_directory(path("sub"));
  make_file("sub/a", "first");
  auto& ops = begin();
  ASSERT_TRUE(replace_file(ops, path("sub"), "a", bytes_of(sectors_of('a', 3))).ok());
  ASSERT_TRUE(ops.write_file(path("b"), bytes_of(sectors_of('b', 5))).ok());
  ASSERT_TRUE(ops.write_file(path("b"), bytes_of(sectors_of('c', 1))).ok());
  ASSERT_TRUE(ops.write_file(path("d"), bytes_of("d")).ok());
  ASSERT_TRUE(ops.remove(path("d")).ok());
  const auto state = drive_->whole();
  EXPECT_EQ(text_of(state->path() + "/sub/a"), sectors_of('a', 3));
  EXPECT_EQ(text_of(state->path() + "/b"), sectors_of('c', 1));
  EXPECT_EQ(system_.list(state->path()).value(), (std::vector<std::string>{"b", "sub"}));
  EXPECT_EQ(system_.list(state->path() + "/sub").value(), (std::vector<std::string>{"a"}));
}

TEST_F(TornDriveTest, TheSameSeedGivesTheSameState) {
  make_file("a", sectors_of('o', 20));
  begin();
  drive_->note_write(inode("a"), 0, bytes_of(sectors_of('n', 20)));
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(text_of(drive_->crash(seed, drive_->n_moments())->path() + "/a"),
              text_of(drive_->crash(seed, drive_->n_moments())->path() + "/a"));
}

/// Replaces a file twice and cuts the power at every moment: the texts of `name`, by the number of replacements done.
class ReplacedFile : public TornDriveTest {
 protected:
  static constexpr std::size_t kSectors = 4;
  const std::string old_text_ = sectors_of('o', kSectors), middle_text_ = sectors_of('m', kSectors + 1),
                    new_text_ = sectors_of('n', kSectors - 1);

  void replace_twice(bool ignore_syncs) {
    make_file("a", old_text_);
    auto& ops = begin();
    drive_->ignore_syncs(ignore_syncs);
    ASSERT_TRUE(replace_file(ops, root_.path(), "a", bytes_of(middle_text_)).ok());
    first_done_ = drive_->n_moments();
    ASSERT_TRUE(replace_file(ops, root_.path(), "a", bytes_of(new_text_)).ok());
  }

  std::size_t first_done_ = 0;
};

TEST_F(ReplacedFile, HoldsTheOldOrTheNewBytesWholeAtEveryMoment) {
  ASSERT_NO_FATAL_FAILURE(replace_twice(false));
  std::size_t n_cuts = 0;
  for (std::size_t moment = 0; moment <= drive_->n_moments(); ++moment) {
    Texts allowed{moment < first_done_ ? old_text_ : middle_text_, moment < first_done_ ? middle_text_ : new_text_};
    if (moment == first_done_) allowed = {middle_text_};
    if (moment == drive_->n_moments()) allowed = {new_text_};
    for (const auto& found : outcomes("a", moment)) EXPECT_EQ(allowed.count(found), 1u) << "moment " << moment;
    n_cuts += kSeeds;
  }
  RecordProperty("cuts", static_cast<int>(n_cuts));
}

TEST_F(ReplacedFile, WithoutItsSyncsIsFoundDamaged) {
  ASSERT_NO_FATAL_FAILURE(replace_twice(true));
  std::size_t n_lost = 0, n_mixed = 0, n_late = 0;
  for (std::size_t moment = 0; moment <= drive_->n_moments(); ++moment) {
    for (const auto& found : outcomes("a", moment)) {
      const bool whole = found == old_text_ || found == middle_text_ || found == new_text_;
      if (!whole) ++(found && !found->empty() ? n_mixed : n_lost);
      if (moment == drive_->n_moments() && whole && found != new_text_) ++n_late;
    }
  }
  EXPECT_GT(n_mixed, 0u);  // a part of the new bytes, zeros between them
  EXPECT_GT(n_lost, 0u);   // the name without any of its bytes
  EXPECT_GT(n_late, 0u);   // replaced, but with the old bytes
}

/// Two pages in a file, written through an engine of either kind, with a log of the writes.
class TornEngineTest : public TornDriveTest, public ::testing::WithParamInterface<EngineChoice> {
 protected:
  static constexpr std::uint64_t kPageBytes = 4096;

  void SetUp() override {
    auto made = make_io_engine(GetParam());
    if (!made.ok()) GTEST_SKIP() << made.error().message;
    begin();
    engine_ = std::make_unique<TornEngine>(std::move(made).value(), *drive_);
    file_.emplace(DirectFile::open(path("data"), DirectFile::Mode::write).value());
  }
  void write(std::uint64_t page, const TestBuffer& bytes) {
    engine_->submit(file_->write_request(page * kPageBytes, bytes.view())).wait().value();
  }
  void sync() { engine_->submit(file_->sync_request()).wait().value(); }
  /// The seed of TestBuffer for a page of a text: 0 where it is none of 1 to 9.
  static std::uint64_t seed_of(const std::string& text, std::uint64_t page) {
    for (std::uint64_t seed = 1; seed < 10; ++seed) {
      const TestBuffer wanted(kPageBytes, seed);
      const auto* bytes = reinterpret_cast<const char*>(wanted.data());
      if (text.compare(page * kPageBytes, kPageBytes, bytes, kPageBytes) == 0) return seed;
    }
    return 0;
  }

  std::optional<DirectFile> file_;
  std::unique_ptr<TornEngine> engine_;  // it ends before the file is closed
};

TEST_P(TornEngineTest, WhatWasSyncedIsThereAndTheRestMayBe) {
  const TestBuffer first(kPageBytes, 1), second(kPageBytes, 2);
  write(0, first);
  sync();
  ASSERT_TRUE(ops_->sync_folder(root_.path()).ok());
  write(1, second);
  std::size_t n_whole = 0, n_damaged = 0, n_missing = 0;
  for (const auto& text : outcomes("data", drive_->n_moments())) {
    ASSERT_TRUE(text.has_value());
    ASSERT_GE(text->size(), kPageBytes);
    EXPECT_EQ(seed_of(*text, 0), 1u);
    if (text->size() == kPageBytes)
      ++n_missing;
    else
      ++(seed_of(*text, 1) == 2 ? n_whole : n_damaged);
  }
  EXPECT_EQ(n_whole, 1u);
  EXPECT_EQ(n_missing, 1u);
  EXPECT_GT(n_damaged, 10u);
}

TEST_P(TornEngineTest, WithoutLossItHoldsWhatTheFileHolds) {
  ASSERT_TRUE(file_->reserve(0, 8 * kPageBytes).ok());
  const TestBuffer pages(3 * kPageBytes, 1), page(kPageBytes, 2);
  write(0, pages);
  write(2, page);
  write(5, page);
  sync();
  EXPECT_EQ(text_of(drive_->whole()->path() + "/data"), text_of(path("data")));
  EXPECT_EQ(text_of(path("data"))->size() >= 6 * kPageBytes, true);
}

TEST_P(TornEngineTest, RoomSetAsideAndSyncedIsLengthThatStays) {
  ASSERT_TRUE(file_->reserve(0, 8 * kPageBytes).ok());
  if (text_of(path("data"))->empty()) GTEST_SKIP() << "the file system of " << root_.path() << " sets no room aside";
  const TestBuffer page(kPageBytes, 1);
  write(0, page);
  sync();
  ASSERT_TRUE(ops_->sync_folder(root_.path()).ok());
  for (const auto& text : outcomes("data", drive_->n_moments())) EXPECT_EQ(text->size(), 8 * kPageBytes);
}

TEST_P(TornEngineTest, AChainIsNotedRequestByRequest) {
  /// A page, a sync and another page, each after the one before has returned; on_start makes the bytes.
  class Chain final : public IoSink {
   public:
    Chain(const DirectFile& file, HostEventState& done) : file_(file), done_(done) {}
    IoRequest first() const { return file_.write_request(0, page_.view()); }
    void on_start(const IoRequest& request) noexcept override {
      if (request.op == IoOp::write) page_.fill(++n_pages_);
    }
    std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
      ok_ = ok_ && outcome.ok();
      if (++n_ended_ == 1) return file_.sync_request();
      if (n_ended_ == 2) return file_.write_request(kPageBytes, page_.view());
      done_.complete(ok_ ? Result<void>() : Result<void>(Error{ErrorKind::io, "a request failed"}));
      return std::nullopt;
    }

   private:
    const DirectFile& file_;
    HostEventState& done_;
    const TestBuffer page_{kPageBytes};
    std::uint64_t n_pages_ = 0, n_ended_ = 0;
    bool ok_ = true;
  };
  const auto done = std::make_shared<HostEventState>();
  Chain chain(*file_, *done);
  engine_->start(chain.first(), chain);
  Event(done).wait().value();
  engine_.reset();
  drive_->note_sync_folder(root_.path());
  bool found_second = false;
  for (const auto& text : outcomes("data", drive_->n_moments())) {
    EXPECT_EQ(seed_of(*text, 0), 1u);
    found_second = found_second || (text->size() > kPageBytes && seed_of(*text, 1) == 2);
  }
  EXPECT_TRUE(found_second);
}

TEST_P(TornEngineTest, WithoutItsSyncsDamageIsFound) {
  drive_->ignore_syncs(true);
  const TestBuffer first(kPageBytes, 1);
  write(0, first);
  sync();
  ASSERT_TRUE(ops_->sync_folder(root_.path()).ok());
  const auto found = outcomes("data", drive_->n_moments());
  EXPECT_EQ(found.count(std::nullopt), 1u);  // not even the name
  EXPECT_EQ(found.count(""), 1u);
  EXPECT_GT(found.size(), 10u);
}

INSTANTIATE_TEST_SUITE_P(Engines, TornEngineTest, ::testing::Values(EngineChoice::uring, EngineChoice::threads),
                         [](const auto& info) { return info.param == EngineChoice::uring ? "uring" : "threads"; });

}  // namespace
}  // namespace castor::test
