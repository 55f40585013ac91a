// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/paged_pool.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace castor {
namespace {

using Page = PageSource::Page;

/// Pages that are numbers; a mapping's address is its number.
class NumberedPages final : public PageSource {
 public:
  std::uint64_t grain_bytes() const override { return 5; }
  Result<Page> create(std::uint64_t page_bytes) override {
    EXPECT_EQ(page_bytes, 10u);
    if (n_created == most) return Error{ErrorKind::does_not_fit, "no page"};
    return Page{n_created++};
  }
  void destroy(Page page) noexcept override {
    EXPECT_FALSE(is_mapped(page));
    EXPECT_TRUE(destroyed.insert(page).second);
  }
  Result<void*> map(std::span<const Page> pages, std::uint64_t page_bytes) override {
    EXPECT_EQ(page_bytes, 10u);
    std::size_t n_mapped = pages.size();
    for (const auto& [data, of_it] : mapped) n_mapped += of_it.size();
    if (refuses || n_mapped > most_mapped) return Error{ErrorKind::does_not_fit, "no addresses"};
    for (const Page page : pages) EXPECT_FALSE(destroyed.contains(page));
    void* const data = reinterpret_cast<void*>(++n_maps);
    mapped[data].assign(pages.begin(), pages.end());
    return data;
  }
  void unmap(void* data, std::uint64_t n_bytes) noexcept override {
    EXPECT_EQ(10 * mapped.at(data).size(), n_bytes);
    mapped.erase(data);
  }
  bool is_mapped(Page page) const {
    for (const auto& [data, pages] : mapped)
      if (std::find(pages.begin(), pages.end(), page) != pages.end()) return true;
    return false;
  }

  std::map<void*, std::vector<Page>> mapped;
  std::set<Page> destroyed;
  std::uint64_t n_created = 0, most = 1000, most_mapped = 10000;
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
  /// True where two slots have no page in common.
  bool share_none(void* a, void* b) const {
    const auto& of_b = pages_.mapped.at(b);
    return std::none_of(pages_.mapped.at(a).begin(), pages_.mapped.at(a).end(),
                        [&](Page page) { return std::find(of_b.begin(), of_b.end(), page) != of_b.end(); });
  }

  NumberedPages pages_;
  std::shared_ptr<Work> work_ = std::make_shared<Work>();  // owners: this and the events
  PagedPool pool_{pages_, 10, [this] { return Event(work_); }};
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

TEST_F(PagedPoolTest, PagesGetMoreAddressesWithoutWaiting) {
  void* const small = allocate(20);
  pool_.deallocate(small, 20);
  void* const large = allocate(30);
  EXPECT_EQ(work_->n_waits, 0);
  EXPECT_EQ(pages_.n_created, 3u);
  EXPECT_EQ(pages_.mapped.size(), 2u) << "the small slot's mapping stays";
  pool_.deallocate(large, 30);
}

TEST_F(PagedPoolTest, AMappingIsASlotAgainOnceAllItsPagesAreFree) {
  void* const first = allocate(20);
  void* const second = allocate(20);
  pool_.deallocate(first, 20);
  pool_.deallocate(second, 20);
  void* const both = allocate(40);
  void* const third = allocate(20);
  EXPECT_TRUE(third != first && third != second) << "their pages are in use";
  pool_.deallocate(both, 40);
  pool_.deallocate(third, 20);
  for (int i = 0; i < 3; ++i) {
    const std::set<void*> slots = {allocate(20), allocate(20), allocate(20)};
    EXPECT_EQ(slots, (std::set<void*>{first, second, third}));
    for (void* const slot : slots) pool_.deallocate(slot, 20);
    EXPECT_EQ(allocate(40), both);
    pool_.deallocate(both, 40);
  }
  EXPECT_EQ(pages_.n_maps, 4u);
}

TEST_F(PagedPoolTest, LeavesPagesToTheFirstMappings) {
  void* const first = allocate(20);
  void* const second = allocate(20);
  pool_.deallocate(second, 20);
  pool_.deallocate(first, 20);
  void* const other = allocate(10);
  EXPECT_EQ(allocate(20), first);
  pool_.deallocate(first, 20);
  pool_.deallocate(other, 10);
}

TEST_F(PagedPoolTest, MappingsAreLimitedAndEndAfterTheWorkOnThem) {
  std::mt19937 random(3);
  std::vector<std::pair<void*, std::uint64_t>> slots;
  for (int i = 0; i < 2000; ++i) {
    if (slots.size() < 5) {
      const std::uint64_t n_bytes = 10 * (1 + random() % 6);
      slots.emplace_back(allocate(n_bytes), n_bytes);
    } else {
      const auto slot = slots.begin() + static_cast<std::ptrdiff_t>(random() % slots.size());
      pool_.deallocate(slot->first, slot->second);
      slots.erase(slot);
    }
    std::uint64_t n_mapped = 0;
    for (const auto& [data, pages] : pages_.mapped) n_mapped += pages.size();
    EXPECT_LE(n_mapped, 8 * pages_.n_created);
  }
  EXPECT_GT(pages_.n_maps, pages_.mapped.size()) << "some have ended";
  EXPECT_EQ(work_->n_waits, static_cast<int>(pages_.n_maps - pages_.mapped.size()));
  for (const auto& [data, n_bytes] : slots) pool_.deallocate(data, n_bytes);
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

TEST_F(PagedPoolTest, MappingsThatAreNoSlotsMakeWay) {
  pages_.most_mapped = 6;
  void* const slot = allocate(20);
  void* const other = allocate(20);
  pool_.deallocate(other, 20);
  void* const larger = allocate(30);  // with the other mapping there would be 7 mapped pages
  EXPECT_EQ(pages_.mapped.size(), 2u);
  EXPECT_EQ(work_->n_waits, 1);
  pool_.deallocate(slot, 20);
  pool_.deallocate(larger, 30);
}

TEST_F(PagedPoolTest, TrimGivesBackThePagesOfNoSlot) {
  void* const used = allocate(10);
  void* const unused = allocate(20);
  pool_.deallocate(unused, 20);
  EXPECT_EQ(pool_.trim(), 20u);
  EXPECT_EQ(work_->n_waits, 1) << "for the slot whose mapping ended";
  EXPECT_EQ(pool_.held_bytes(), 10u);
  EXPECT_EQ(pages_.mapped.size(), 1u);
  pool_.deallocate(used, 10);
}

/// Slots of which a step makes several sizes, in an order that repeats, with `room` pages.
class Steps {
 public:
  Steps(PagedPool& pool, std::uint64_t room) : pool_(pool), room_(room) {}

  void run(std::uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t n_pages = i % 7 == 3 ? 9 : i % 3 == 0 ? 5 : 3;
      while (n_used_ + n_pages > room_) end(random() % slots_.size());
      slots_.push_back({pool_.allocate(10 * n_pages).value(), n_pages});
      n_used_ += n_pages;
    }
    while (!slots_.empty()) end(slots_.size() - 1);
  }

 private:
  void end(std::size_t i) {
    pool_.deallocate(slots_[i].first, 10 * slots_[i].second);
    n_used_ -= slots_[i].second;
    slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  PagedPool& pool_;
  const std::uint64_t room_;
  std::vector<std::pair<void*, std::uint64_t>> slots_;
  std::uint64_t n_used_ = 0;
};

TEST_F(PagedPoolTest, AStepThatRepeatsSoonFindsMostOfItsSlotsMapped) {
  Steps steps(pool_, 60);
  steps.run(1);
  const std::uintptr_t of_first = pages_.n_maps;
  for (int i = 0; i < 10; ++i) steps.run(1);
  const std::uintptr_t before = pages_.n_maps;
  for (int i = 0; i < 10; ++i) steps.run(1);
  EXPECT_LE(10 * (pages_.n_maps - before), 200u) << "of 2000 slots; the first step mapped " << of_first;
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
      for (const auto& [other, n_other_bytes] : used) EXPECT_TRUE(share_none(data, other));
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
