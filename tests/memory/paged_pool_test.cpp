// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/paged_pool.h>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace castor {
namespace {

using Page = PageSource::Page;

/// Pages of 10 bytes that are numbers; a mapping's address is its number.
class NumberedPages final : public PageSource {
 public:
  std::uint64_t page_bytes() const override { return 10; }
  Result<Page> create() override {
    if (n_created == most) return Error{ErrorKind::does_not_fit, "no page"};
    return Page{n_created++};
  }
  void destroy(Page page) noexcept override {
    EXPECT_FALSE(is_mapped(page));
    EXPECT_TRUE(destroyed.insert(page).second);
  }
  Result<void*> map(std::span<const Page> pages) override {
    if (refuses) return Error{ErrorKind::does_not_fit, "no addresses"};
    for (const Page page : pages) EXPECT_FALSE(is_mapped(page) || destroyed.contains(page));
    void* const data = reinterpret_cast<void*>(++n_maps);
    mapped[data].assign(pages.begin(), pages.end());
    return data;
  }
  void unmap(void* data, std::uint64_t n_pages) noexcept override {
    EXPECT_EQ(mapped.at(data).size(), n_pages);
    mapped.erase(data);
  }
  bool is_mapped(Page page) const {
    for (const auto& [data, pages] : mapped)
      if (std::find(pages.begin(), pages.end(), page) != pages.end()) return true;
    return false;
  }

  std::map<void*, std::vector<Page>> mapped;
  std::set<Page> destroyed;
  std::uint64_t n_created = 0, most = 1000;
  std::uintptr_t n_maps = 0;
  bool refuses = false;
};

/// An event of work that ends when the test says so, or when it is waited for.
class Work final : public EventState {
 public:
  bool ready() const override { return ended; }
  Result<void> wait() const override { return ended = true, ++n_waits, Result<void>(); }
  mutable bool ended = false;
  mutable int n_waits = 0;
};

class PagedPoolTest : public ::testing::Test {
 protected:
  void* allocate(std::uint64_t n_bytes) { return pool_.allocate(n_bytes).value(); }

  NumberedPages pages_;
  std::shared_ptr<Work> work_ = std::make_shared<Work>();  // owners: this and the events
  PagedPool pool_{pages_, [this] { return Event(work_); }};
};

TEST_F(PagedPoolTest, ASlotThatWasGivenBackIsTheNextOfItsSize) {
  void* const data = allocate(25);
  EXPECT_EQ(pages_.mapped.at(data).size(), 3u);
  pool_.deallocate(data, 25);
  EXPECT_EQ(allocate(21), data) << "three pages as well, and nothing waits for the work on them";
  EXPECT_EQ(pages_.n_maps, 1u);
  EXPECT_EQ(work_->n_waits, 0);
  pool_.deallocate(data, 21);
}

TEST_F(PagedPoolTest, PagesOfSeveralSlotsMakeAnother) {
  work_->ended = true;
  std::vector<void*> small = {allocate(10), allocate(10), allocate(10), allocate(10)};
  pool_.deallocate(small[0], 10);
  pool_.deallocate(small[2], 10);
  void* const large = allocate(20);
  EXPECT_EQ(pages_.mapped.at(large).size(), 2u);
  EXPECT_EQ(pool_.held_bytes(), 40u) << "no page more";
  for (void* const data : {small[1], small[3]}) pool_.deallocate(data, 10);
  pool_.deallocate(large, 20);
}

TEST_F(PagedPoolTest, PagesGetOtherAddressesOnceTheWorkOnThemHasEnded) {
  void* const busy = allocate(20);
  pool_.deallocate(busy, 20);
  const auto before = std::exchange(work_, std::make_shared<Work>());
  void* const idle = allocate(30);
  EXPECT_EQ(before->n_waits, 1) << "of two pages; the third is new";
  pool_.deallocate(idle, 30);
}

TEST_F(PagedPoolTest, TakesThePagesOfASlotWhoseWorkHasEndedFirst) {
  void* const first = allocate(10);
  void* const second = allocate(20);
  pool_.deallocate(first, 10);
  const auto running = std::exchange(work_, std::make_shared<Work>());
  work_->ended = true;
  pool_.deallocate(second, 20);
  void* const third = allocate(15);
  EXPECT_EQ(third, second);
  pool_.deallocate(third, 15);
  (void)allocate(30);
  EXPECT_EQ(running->n_waits, 1);
  pool_.deallocate(pages_.mapped.rbegin()->first, 30);
}

TEST_F(PagedPoolTest, ARefusalChangesNothing) {
  pages_.most = 3;
  void* const data = allocate(20);
  const auto refused = pool_.allocate(20);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  pages_.refuses = true;
  EXPECT_FALSE(pool_.allocate(10).ok());
  pages_.refuses = false;
  void* const last = allocate(10);
  EXPECT_EQ(pages_.n_created, 3u);
  pool_.deallocate(data, 20);
  pool_.deallocate(last, 10);
  EXPECT_THROW((void)pool_.allocate(0), ContractViolation);
}

TEST_F(PagedPoolTest, TrimGivesBackThePagesOfNoSlot) {
  void* const used = allocate(10);
  void* const unused = allocate(20);
  pool_.deallocate(unused, 20);
  EXPECT_EQ(pool_.trim(), 20u);
  EXPECT_EQ(work_->n_waits, 1);
  EXPECT_EQ(pool_.held_bytes(), 10u);
  EXPECT_EQ(pages_.mapped.size(), 1u);
  pool_.deallocate(used, 10);
}

/// Slots that are in use at once share no page, and there are never more pages than they had together at most.
TEST_F(PagedPoolTest, RandomSlots) {
  std::mt19937 random(11);
  std::map<void*, std::uint64_t> used;
  std::uint64_t n_used = 0, most_used = 0;
  for (int i = 0; i < 3000; ++i) {
    work_->ended = random() % 3 > 0;
    if (used.empty() || random() % 2 == 0) {
      const std::uint64_t n_bytes = 1 + random() % 90, n_pages = (n_bytes + 9) / 10;
      void* const data = allocate(n_bytes);
      EXPECT_EQ(pages_.mapped.at(data).size(), n_pages);
      EXPECT_TRUE(used.emplace(data, n_bytes).second);
      most_used = std::max(most_used, n_used += n_pages);
    } else {
      const auto slot = std::next(used.begin(), random() % used.size());
      n_used -= (slot->second + 9) / 10;
      pool_.deallocate(slot->first, slot->second);
      used.erase(slot);
    }
    ASSERT_EQ(pages_.n_created, most_used);
    work_ = std::make_shared<Work>();
  }
  for (const auto& [data, n_bytes] : used) pool_.deallocate(data, n_bytes);
  EXPECT_EQ(pool_.trim(), 10 * most_used);
  EXPECT_EQ(pages_.destroyed.size(), most_used);
}

}  // namespace
}  // namespace castor
