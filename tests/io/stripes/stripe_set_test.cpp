// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"
#include "stripe_units.h"
#include "stripes/stripe_set.h"

namespace castor::test {
namespace {

std::uint64_t room_of(const Placement& placement) {
  std::uint64_t n_bytes = 0;
  for (const auto& extent : placement.extents) n_bytes += extent.n_bytes;
  return n_bytes;
}

class StripeSetTest : public ::testing::Test {
 protected:
  StripeOptions options(std::size_t n_folders, std::uint64_t block_bytes = kPage) {
    StripeOptions options;
    for (std::size_t i = 0; i < n_folders; ++i) options.folders.push_back(folders_[i].path());
    options.block_bytes = block_bytes;
    options.budget = &budget_;
    options.clock = [this] { return now_ns_.load(); };
    return options;
  }
  std::unique_ptr<StripeSet> open(std::size_t n_folders, std::uint64_t block_bytes = kPage) {
    return StripeSet::open(options(n_folders, block_bytes)).value();
  }
  /// Has `volume` move 64 MiB `n` times, each in `took_ms`.
  void move(StripeSet& set, std::size_t volume, int n, std::uint64_t took_ms) {
    for (int i = 0; i < n; ++i) {
      set.started(volume, now_ns_);
      now_ns_ += took_ms * kMs;
      set.ended(volume, 64 * kMiB, now_ns_);
    }
  }
  /// The units of `placement` on `volume`.
  static std::uint64_t units(const Placement& placement, std::size_t volume, std::uint64_t block_bytes = kPage) {
    return (placement.extents[volume].n_bytes + block_bytes - 1) / block_bytes;
  }

  std::array<ScratchFolder, 3> folders_;
  Budget budget_{Tier::nvme};
  std::atomic<std::uint64_t> now_ns_{0};
};

TEST_F(StripeSetTest, AValueIsDealtOverAllVolumes) {
  const auto set = open(3);
  const auto placement = set->take(7, 30 * kPage).value();
  ASSERT_EQ(placement.extents.size(), 3u);
  for (std::size_t v = 0; v < 3; ++v) EXPECT_EQ(units(placement, v), 10u);
  EXPECT_TRUE(holds_value(placement, 30 * kPage, kPage));
  EXPECT_EQ(set->allocated_bytes(), 30 * kPage);
  EXPECT_EQ(budget_.used_bytes(), 30 * kPage);
  for (std::size_t v = 0; v < 3; ++v) EXPECT_GE(set->file(v).size_bytes().value(), 10 * kPage);
}

TEST_F(StripeSetTest, WhatRoundingGaveOneVolumeTheOthersGetNext) {
  const auto set = open(3);
  std::vector<std::uint64_t> n_units(3);
  for (std::uint64_t key = 0; key < 300; ++key) {
    const auto placement = set->take(key, key % 2 == 0 ? kPage : 4 * kPage).value();
    for (std::size_t v = 0; v < 3; ++v) n_units[v] += units(placement, v);
    const auto [least, most] = std::minmax_element(n_units.begin(), n_units.end());
    ASSERT_LE(*most - *least, 2u) << key;
  }
}

TEST_F(StripeSetTest, ADriveThatTurnsFourTimesSlowerGetsAFifthOfTheNextBytesAndRecovers) {
  const auto set = open(2);
  move(*set, 0, 1, 64);
  move(*set, 1, 1, 64);
  EXPECT_EQ(units(set->take(1, 100 * kPage).value(), 1), 50u);
  move(*set, 1, 30, 256);
  EXPECT_NEAR(set->shares()[1], 0.2, 0.001);
  EXPECT_NEAR(static_cast<double>(units(set->take(2, 100 * kPage).value(), 1)), 20, 1);
  std::uint64_t n_slow = 0;
  for (std::uint64_t key = 100; key < 600; ++key) n_slow += units(set->take(key, 100).value(), 1);
  EXPECT_NEAR(static_cast<double>(n_slow), 100, 2);  // of 500 values of one unit
  move(*set, 1, 30, 64);
  EXPECT_NEAR(static_cast<double>(units(set->take(3, 100 * kPage).value(), 1)), 50, 2);
}

TEST_F(StripeSetTest, AValueIsWorthMovingWhenAQuarterOfItLiesWrong) {
  const auto set = open(2);
  const auto large = set->take(1, 100 * kPage).value();
  const auto small_0 = set->take(2, kPage).value();
  const auto small_1 = set->take(3, kPage).value();
  ASSERT_EQ(units(small_1, 1), 1u);
  EXPECT_FALSE(set->worth_moving(large));
  move(*set, 0, 1, 64);
  move(*set, 1, 1, 128);  // 67 : 33, a sixth is on the wrong volume
  EXPECT_FALSE(set->worth_moving(large));
  move(*set, 1, 30, 224);  // 78 : 22
  EXPECT_TRUE(set->worth_moving(large));
  EXPECT_FALSE(set->worth_moving(small_1));  // 3.5 times slower is not enough for one unit
  move(*set, 1, 30, 320);
  EXPECT_TRUE(set->worth_moving(small_1));
  EXPECT_FALSE(set->worth_moving(small_0));
  EXPECT_FALSE(set->worth_moving(set->take(1, 100 * kPage).value()));
}

TEST_F(StripeSetTest, WhatRoundingDidIsNotWorthMoving) {
  const auto set = open(3);
  for (std::uint64_t key = 0; key < 20; ++key)
    EXPECT_FALSE(set->worth_moving(set->take(key, (1 + key % 5) * kPage).value())) << key;
}

TEST_F(StripeSetTest, MoreThanTheBudgetIsRefusedWithTheFigures) {
  budget_.set_limit(10 * kPage);
  const auto set = open(2);
  const auto placement = set->take(1, 8 * kPage).value();
  const auto refused = set->take(2, 2 * kPage + 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(refused.error().message,
            "nvme tier: key 2 needs 12.0 KiB, 8.00 KiB are free under the 40.0 KiB budget; raise it to 44.0 KiB or "
            "more");
  EXPECT_EQ(set->allocated_bytes(), 8 * kPage);
  set->give_back(1, placement);
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(StripeSetTest, WhatIsSetAsideAheadStaysInTheBudget) {
  budget_.set_limit(kMiB);
  const auto set = open(2);
  ASSERT_TRUE(set->take(1, 512 * kKiB).ok());
  const auto both = set->file(0).size_bytes().value() + set->file(1).size_bytes().value();
  EXPECT_LE(both, kMiB);
}

TEST_F(StripeSetTest, WhatOneFileMayNotHoldGoesToTheOthers) {
  auto limited = options(2);
  limited.file_limit_bytes = 10 * kPage;
  const auto set = StripeSet::open(limited).value();
  const auto first = set->take(1, 12 * kPage).value();  // 6 : 6
  const auto second = set->take(2, kPage).value();
  const auto third = set->take(3, 7 * kPage).value();
  EXPECT_EQ(room_of(second) + room_of(third), 8 * kPage);
  const auto refused = set->take(4, kPage);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(refused.error().message.find("key 4 needs 4.00 KiB and no folder has room for it: "), 0u);
  for (std::size_t v = 0; v < 2; ++v)
    EXPECT_NE(refused.error().message.find(set->file(v).path()), std::string::npos) << refused.error().message;
  EXPECT_EQ(budget_.used_bytes(), 20 * kPage);
  set->give_back(1, first);
  EXPECT_EQ(room_of(set->take(5, 12 * kPage).value()), 12 * kPage);
}

TEST_F(StripeSetTest, AbsurdSizesAreRefused) {
  const auto set = open(2);
  EXPECT_EQ(set->take(1, ~0ull).error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(set->take(1, 1ull << 62).error().message,
            "key 1 needs 4194304 TiB, a value in blocks of 4.00 KiB has at most 256 GiB; take larger blocks or smaller "
            "values");
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(StripeSetTest, SaysWhatWouldBeLostWithAVolume) {
  const auto set = open(2, kMiB);
  EXPECT_EQ(set->held_text(0), "holds nothing");
  const auto only = set->take(3, 2 * kMiB).value();
  EXPECT_EQ(set->held_text(0), "holds parts of 1 key (3; 1.00 MiB)");
  for (const std::uint64_t key : {9, 5, 12, 12}) set->take(key, 2 * kMiB).value();
  EXPECT_EQ(set->held_text(1), "holds parts of 4 keys (3, 5, 9, …; 5.00 MiB)");
  set->give_back(3, only);
  EXPECT_EQ(set->held_text(1), "holds parts of 3 keys (5, 9, 12; 4.00 MiB)");
}

TEST_F(StripeSetTest, FoldersOnOneDriveAreToldByTheirDevice) {
  const auto set = open(2);
  struct stat facts {};
  ASSERT_EQ(stat(folders_[0].path().c_str(), &facts), 0);
  EXPECT_EQ(set->device(0), facts.st_dev);
  EXPECT_EQ(set->device(1), facts.st_dev);
  StripeOptions twice = options(1);
  twice.folders.push_back(twice.folders[0]);
  const auto same = StripeSet::open(twice).value();  // the same folder twice is two files
  EXPECT_EQ(units(same->take(1, 10 * kPage).value(), 1), 5u);
}

TEST_F(StripeSetTest, WhatCannotBeOpenedIsAUsageErrorOrNamesTheFolder) {
  EXPECT_EQ(StripeSet::open(options(0)).error().message,
            "a tensor store needs at least one folder; name one with `nvme`");
  EXPECT_EQ(StripeSet::open(options(1, 1000)).error().kind, ErrorKind::usage);
  auto many = options(1);
  many.folders.assign(65, folders_[0].path());
  EXPECT_EQ(StripeSet::open(many).error().kind, ErrorKind::usage);
  auto missing = options(1);
  missing.folders.push_back(folders_[0].path() + "/none");
  EXPECT_EQ(StripeSet::open(missing).error().kind, ErrorKind::io);
  EXPECT_TRUE(folders_[0].empty());
}

TEST_F(StripeSetTest, GivingBackWhatIsNotHeldIsABrokenContract) {
  const auto set = open(1);
  const auto placement = set->take(1, kPage).value();
  EXPECT_THROW(set->give_back(2, placement), ContractViolation);
  set->give_back(1, placement);
  EXPECT_THROW(set->give_back(1, placement), ContractViolation);
}

// --- files with names ------------------------------------------------------------------------------------------------

class NamedStripes : public StripeSetTest {
 protected:
  std::unique_ptr<StripeSet> open_named() { return StripeSet::open_named(options(2), {"a.data", "b.data"}).value(); }
  std::string path(std::size_t folder, const std::string& name) const { return folders_[folder].path() + "/" + name; }
};

TEST_F(NamedStripes, HaveOneOwner) {
  const auto set = open_named();
  const auto refused = StripeSet::open_named(options(2), {"a.data", "b.data"});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("this process has it open"), std::string::npos) << refused.error().message;
}

TEST_F(NamedStripes, AreWhatTheyWereOnceTheirPlacementsAreClaimed) {
  Placement kept, dropped, tail;
  {
    const auto set = open_named();
    kept = set->take(1, 10 * kPage).value();
    dropped = set->take(2, 10 * kPage).value();
    tail = set->take(3, 10 * kPage).value();
  }
  EXPECT_EQ(budget_.used_bytes(), 0u);
  const auto set = open_named();
  ASSERT_TRUE(set->claim(1, kept).ok());
  ASSERT_TRUE(set->claim(3, tail).ok());
  EXPECT_EQ(set->allocated_bytes(), 20 * kPage);
  EXPECT_EQ(budget_.used_bytes(), 20 * kPage);
  EXPECT_EQ(set->held_text(0), "holds parts of 2 keys (1, 3; 40.0 KiB)");
  set->drop_unclaimed();
  const auto again = set->take(4, 10 * kPage).value();  // into the gap that no key claimed
  for (std::size_t v = 0; v < 2; ++v) EXPECT_EQ(again.extents[v].offset_bytes, dropped.extents[v].offset_bytes);
}

TEST_F(NamedStripes, EndWhereTheirLastExtentDoesOnceTheyAreClosed) {
  {
    const auto set = open_named();
    ASSERT_TRUE(set->take(1, 10 * kPage).ok());
    EXPECT_GE(std::filesystem::file_size(path(0, "a.data")), 5 * kPage);
  }
  EXPECT_EQ(std::filesystem::file_size(path(0, "a.data")), 5 * kPage);
  EXPECT_EQ(std::filesystem::file_size(path(1, "b.data")), 5 * kPage);
}

TEST_F(NamedStripes, AClaimThatFailsChangesNothing) {
  {
    const auto set = open_named();
    ASSERT_TRUE(set->take(1, 20 * kPage).ok());
  }
  {
    const auto set = open_named();
    ASSERT_TRUE(set->claim(1, {{{0, 5 * kPage}, {0, 5 * kPage}}}).ok());
    const auto taken = set->claim(2, {{{5 * kPage, kPage}, {4 * kPage, kPage}}});  // key 1 has the second extent
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().message, path(1, "b.data") +
                                         ", key 2: 4096 bytes at offset 16384 are claimed, some of which are taken "
                                         "already");
    EXPECT_EQ(set->claim(3, {{{0, kPage}}}).error().message,
              "key 3 is on 1 volumes and the store has 2; name the folders that it was made with");
    EXPECT_EQ(set->claim(4, {{{5 * kPage, kPage}, {40 * kPage, kPage}}}).error().message,
              path(1, "b.data") +
                  " ends after 40960 bytes and should have 4096 of key 4 at offset 163840; bring back the whole file");
    budget_.set_limit(11 * kPage);
    EXPECT_EQ(set->claim(5, {{{5 * kPage, 2 * kPage}, {}}}).error().kind, ErrorKind::does_not_fit);
    EXPECT_EQ(set->allocated_bytes(), 10 * kPage);
    EXPECT_EQ(budget_.used_bytes(), 10 * kPage);
  }
  // The opening that failed half-way has cut off nothing.
  EXPECT_EQ(std::filesystem::file_size(path(0, "a.data")), 10 * kPage);
  EXPECT_EQ(std::filesystem::file_size(path(1, "b.data")), 10 * kPage);
}

TEST_F(NamedStripes, DropWhatNobodyClaims) {
  {
    const auto set = open_named();
    ASSERT_TRUE(set->take(1, 200 * kPage).ok());
  }
  const auto set = open_named();
  ASSERT_TRUE(set->claim(1, {{{90 * kPage, kPage}, {}}}).ok());
  set->drop_unclaimed();
  EXPECT_EQ(set->file(0).size_bytes().value(), 91 * kPage);
  EXPECT_EQ(set->file(1).size_bytes().value(), 0u);
  struct stat facts {};
  ASSERT_EQ(fstat(set->file(0).fd(), &facts), 0);
  EXPECT_LE(facts.st_blocks * 512, static_cast<blkcnt_t>(2 * kPage));
}

// --- against a naive model -------------------------------------------------------------------------------------------

/// The key of each page of each volume.
class PageModel {
 public:
  void take(std::uint64_t id, const Placement& placement) {
    for_each_page(placement, [&](auto page) { ASSERT_TRUE(owners_.emplace(page, id).second) << "taken twice"; });
  }
  void give_back(std::uint64_t id, const Placement& placement) {
    for_each_page(placement, [&](auto page) {
      ASSERT_EQ(owners_.at(page), id);
      owners_.erase(page);
    });
  }
  std::uint64_t n_bytes() const { return owners_.size() * kPage; }

 private:
  template <typename Function>
  static void for_each_page(const Placement& placement, const Function& function) {
    for (std::size_t v = 0; v < placement.extents.size(); ++v)
      for (std::uint64_t at = 0; at < placement.extents[v].n_bytes; at += kPage)
        function(std::pair(v, placement.extents[v].offset_bytes + at));
  }
  std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> owners_;
};

TEST_F(StripeSetTest, AgreesWithANaiveModel) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr std::uint64_t kLimit = 400 * kPage, kBlock = 4 * kPage;
  budget_.set_limit(kLimit);
  auto limited = options(3, kBlock);
  limited.file_limit_bytes = 150 * kPage;
  const auto set = StripeSet::open(limited).value();
  PageModel model;
  std::vector<std::pair<std::uint64_t, Placement>> held;
  std::uint64_t peak = 0;
  for (std::uint64_t step = 0; step < 3000; ++step) {
    if (random() % 50 == 0) move(*set, random() % 3, 3, 16 + random() % 500);
    if (held.empty() || random() % 20 < 11) {
      const std::uint64_t n_bytes = random() % (random() % 4 == 0 ? 60 * kPage : 3 * kPage);
      const bool fits_budget = budget_.used_bytes() + value_room_bytes(n_bytes) <= kLimit;
      const auto got = set->take(step, n_bytes);
      ASSERT_TRUE(fits_budget || !got.ok());
      if (got.ok()) {
        ASSERT_TRUE(holds_value(*got, n_bytes, kBlock));
        model.take(step, *got);
        held.emplace_back(step, *got);
      }
    } else {
      std::swap(held[random() % held.size()], held.back());
      model.give_back(held.back().first, held.back().second);
      set->give_back(held.back().first, held.back().second);
      held.pop_back();
    }
    ASSERT_FALSE(HasFatalFailure());
    peak = std::max(peak, model.n_bytes());
    ASSERT_EQ(set->allocated_bytes(), model.n_bytes());
    ASSERT_EQ(budget_.used_bytes(), model.n_bytes());
    ASSERT_EQ(set->peak_allocated_bytes(), peak);
  }
  for (const auto& [key, placement] : held) set->give_back(key, placement);
  EXPECT_EQ(set->allocated_bytes(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 0u);
  for (std::size_t v = 0; v < 3; ++v) {
    EXPECT_EQ(set->held_text(v), "holds nothing");
    EXPECT_EQ(set->file(v).size_bytes().value(), 0u);  // all room was given back
  }
}

/// Writes a page of `id` at the beginning of each extent, or checks that it is still there.
bool mark(const StripeSet& set, const Placement& placement, std::uint64_t id, bool write) {
  const TestBuffer page(kPage, id);
  for (std::size_t v = 0; v < placement.extents.size(); ++v) {
    const auto& extent = placement.extents[v];
    if (extent.n_bytes == 0) continue;
    const auto moved = write ? set.file(v).write_bytes(extent.offset_bytes, page.view())
                             : set.file(v).read_bytes(extent.offset_bytes, page.view());
    if (!moved.ok() || !page.holds(id)) return false;
  }
  return true;
}

TEST_F(StripeSetTest, ThreadsMayDoAllAtOnce) {
  const auto set = open(3);
  std::mutex mutex;
  PageModel model;
  const auto work = [&](std::uint64_t id) {
    std::mt19937 random(static_cast<unsigned>(id));
    for (int round = 0; round < 150; ++round) {
      set->started(random() % 3, now_ns_);
      const auto placement = set->take(id, random() % (20 * kPage)).value();
      {
        const std::lock_guard lock(mutex);
        model.take(id, placement);
      }
      EXPECT_TRUE(mark(*set, placement, id, true));
      now_ns_ += kMs;
      set->ended(random() % 3, kMiB, now_ns_);
      (void)set->worth_moving(placement);
      (void)set->held_text(0);
      EXPECT_TRUE(mark(*set, placement, id, false)) << "another thread's room took the bytes along";
      {
        const std::lock_guard lock(mutex);
        model.give_back(id, placement);
      }
      set->give_back(id, placement);
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t id = 1; id <= 4; ++id) threads.emplace_back(work, id);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(set->allocated_bytes(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(StripeSetTest, NeighboursOfWhatIsGivenBackKeepTheirBytes) {
  const auto set = open(1);
  const auto a = set->take(1, kPage).value(), b = set->take(2, kPage).value(), c = set->take(3, kPage).value();
  std::vector<std::byte> ones(kPage, std::byte{1}), back(kPage);
  const BufferView out{ones.data(), kPage}, in{back.data(), kPage};
  for (const auto* placement : {&a, &b, &c})
    ASSERT_TRUE(set->file(0).write_bytes(placement->extents[0].offset_bytes, out).ok());
  set->give_back(2, b);
  for (const auto* placement : {&a, &c}) {
    ASSERT_TRUE(set->file(0).read_bytes(placement->extents[0].offset_bytes, in).ok());
    EXPECT_EQ(back, ones);
  }
  ASSERT_TRUE(set->file(0).read_bytes(b.extents[0].offset_bytes, in).ok());
  EXPECT_EQ(back, std::vector<std::byte>(kPage));  // punched
}

}  // namespace
}  // namespace castor::test
