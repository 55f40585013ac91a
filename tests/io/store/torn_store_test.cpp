// SPDX-License-Identifier: Apache-2.0
// Power cuts under a store with Durability::commit: random runs over one and two folders, cut at random moments, in the
// model of tests/support/drives/torn_drive.h. CASTOR_TORN_STATES is the number of cuts in all (2400).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <castor/io/io_engine.h>
#include <castor/io/tensor_store.h>
#include <castor/memory/budget.h>

#include "files/folder_ops.h"
#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"
#include "../../support/drives/torn_calls.h"
#include "../../support/drives/torn_drive.h"
#include "../../support/drives/torn_engine.h"
#include "../../support/drives/torn_folder_ops.h"

namespace castor::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kMostKeys = 6;
constexpr std::uint64_t kMostValueBytes = 20000;
constexpr std::uint64_t kSmallBudgetBytes = 2 * kMiB;  // so that little room is set aside ahead, which is quicker
constexpr std::size_t kRounds = 6;
constexpr std::size_t kCutsPerRun = 25;

struct Layout {
  std::size_t n_folders = 1;
  bool checksums = true;
};

struct Value {
  std::uint64_t n_bytes = 0;
  std::uint64_t seed = 0;
};
using Values = std::map<std::uint64_t, Value>;

/// The contents of a store as of one commit. The first of a list are those it began with, which need not be a commit's.
struct Commit {
  std::optional<std::uint64_t> step;
  Values values;
  std::size_t begun = 0;  ///< the moment of the call
  std::size_t done = 0;   ///< the moment after its event
};

std::vector<std::string> folders_below(const std::string& root, const Layout& layout) {
  std::vector<std::string> folders;
  for (std::size_t i = 0; i < layout.n_folders; ++i) folders.push_back(root + "/" + std::string(1, char('a' + i)));
  return folders;
}

TensorStoreOptions options_below(const std::string& root, const Layout& layout) {
  TensorStoreOptions options;
  options.folders = folders_below(root, layout);
  options.checksums = layout.checksums;
  options.durability = Durability::commit;
  options.block_bytes = kBlockBytes;
  options.depth = 3;
  return options;
}

std::unique_ptr<IoEngine> make_engine(EngineChoice choice, unsigned n_threads) {
  IoEngineOptions options;
  options.choice = choice;
  options.depth = 8;
  options.n_threads = n_threads;
  return make_io_engine(options).value();
}

/// A store that puts, removes, commits and is opened again while a TornDrive logs it.
class StoreRun {
 public:
  /// Continues from `first`, which the store below `root` holds.
  StoreRun(const std::string& root, const Layout& layout, std::uint64_t seed, Commit first)
      : layout_(layout), random_(seed), now_(first.values), drive_(root) {
    if (below(8) != 0) budget_.set_limit(kSmallBudgetBytes);
    first.begun = first.done = 0;
    step_ = first.step.value_or(0);
    commits_.push_back(std::move(first));
  }

  TornDrive& drive() { return drive_; }
  const TornDrive& drive() const { return drive_; }
  const std::vector<Commit>& commits() const { return commits_; }

  void go() {
    const TornCalls watch(drive_);
    open();
    for (std::size_t round = 0; round < kRounds; ++round) {
      change_some();
      if (below(8) != 0) commit();
      if (below(4) == 0) open();
    }
    wait_for_puts();
    store_.reset();
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  /// Opens the store again: values that were not committed are gone.
  void open() {
    wait_for_puts();
    store_.reset();
    now_ = commits_.back().values;
    auto options = options_below(drive_.root(), layout_);
    options.budget = &budget_;
    auto engine = std::make_unique<TornEngine>(
        make_engine(below(2) == 0 ? EngineChoice::best : EngineChoice::threads, 2), drive_);
    store_ = TensorStore::open(options, std::move(engine), std::make_unique<TornFolderOps>(system_, drive_)).value();
    if (store_->committed_step() != commits_.back().step) throw std::logic_error("another step than was committed");
  }

  void change_some() {
    for (auto n_changes = below(6); n_changes > 0; --n_changes) {
      const auto key = below(kMostKeys);
      below(6) == 0 ? remove(key) : put(key);
    }
  }

  void remove(std::uint64_t key) {
    store_->remove(key);
    now_.erase(key);
  }

  void put(std::uint64_t key) {
    const Value value{size_for(key), random_()};
    const auto& bytes = in_flight_.emplace_back(std::make_unique<TestBuffer>(value.n_bytes, value.seed));
    puts_.push_back(store_->put(key, bytes->view()));
    now_[key] = value;
  }

  /// Mostly the size of the present value: then there are two slots.
  std::uint64_t size_for(std::uint64_t key) {
    constexpr std::uint64_t kSizes[] = {0, 1, 512, 4095, 4096, 4097, 8192, 12288};
    const auto found = now_.find(key);
    if (found != now_.end() && below(3) != 0) return found->second.n_bytes;
    const auto which = below(std::size(kSizes) + 4);
    return which < std::size(kSizes) ? kSizes[which] : below(kMostValueBytes);
  }

  /// Half of the time starts the next puts before the commit has ended.
  void commit() {
    Commit next{++step_, now_, drive_.n_moments(), 0};
    const Event done = store_->commit(step_);
    if (below(2) == 0) put(below(kMostKeys));
    done.wait().value();
    next.done = drive_.n_moments();
    commits_.push_back(std::move(next));
    if (below(2) == 0) wait_for_puts();
  }

  void wait_for_puts() {
    for (const auto& event : puts_) event.wait().value();
    puts_.clear();
    in_flight_.clear();
  }

  const Layout layout_;
  std::mt19937_64 random_;
  Values now_;
  std::vector<Commit> commits_;
  std::uint64_t step_ = 0;
  Budget budget_{Tier::nvme};
  SystemFolderOps system_;
  TornDrive drive_;
  std::unique_ptr<TensorStore> store_;
  std::vector<std::unique_ptr<TestBuffer>> in_flight_;
  std::vector<Event> puts_;
};

/// The commits of which a cut at `moment` may leave one: the last that had returned, and the one under way.
std::vector<const Commit*> may_be_left(const std::vector<Commit>& commits, std::size_t moment) {
  std::vector<const Commit*> may;
  for (const auto& commit : commits) {
    if (commit.done <= moment)
      may = {&commit};
    else if (commit.begun < moment)
      may.push_back(&commit);
  }
  return may;
}

/// Does not wait for syncs: no power cut follows while a store is only checked.
class QuickFolderOps final : public FolderOps {
 public:
  Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) override {
    return system_.write_file(path, bytes);
  }
  Result<std::optional<std::vector<std::byte>>> read_file(const std::string& path, std::uint64_t max_bytes) override {
    return system_.read_file(path, max_bytes);
  }
  Result<void> sync_file(const std::string&) override { return {}; }
  Result<void> rename(const std::string& from, const std::string& to) override { return system_.rename(from, to); }
  Result<void> remove(const std::string& path) override { return system_.remove(path); }
  Result<void> sync_folder(const std::string&) override { return {}; }
  Result<std::vector<std::string>> list(const std::string& folder) override { return system_.list(folder); }

 private:
  SystemFolderOps system_;
};

/// The result of checking a store: the commit that it holds, or its damage.
struct Finding {
  const Commit* commit = nullptr;
  std::string damage;
};

/// Checks the store after a cut.
class Inspection {
 public:
  Inspection(const std::string& root, const Layout& layout) : root_(root), layout_(layout) {}

  Finding find(const std::vector<const Commit*>& may_be) {
    auto opened = TensorStore::open(options_below(root_, layout_), make_engine(EngineChoice::threads, 1),
                                    std::make_unique<QuickFolderOps>());
    if (!opened.ok()) return {nullptr, "it does not open: " + opened.error().message};
    store_ = std::move(opened).value();
    const auto step = store_->committed_step();
    const auto found = std::find_if(may_be.begin(), may_be.end(), [&](auto* commit) { return commit->step == step; });
    if (found == may_be.end()) return {nullptr, "it holds step " + (step ? std::to_string(*step) : "-")};
    return {*found, damage_of((*found)->values)};
  }

 private:
  std::string damage_of(const Values& values) const {
    std::vector<std::uint64_t> wanted;
    for (const auto& [key, value] : values) wanted.push_back(key);
    if (store_->keys() != wanted) return "it has other keys";
    for (const auto& [key, value] : values) {
      if (store_->value_bytes(key).value() != value.n_bytes) return "key " + std::to_string(key) + " has another size";
      const TestBuffer bytes(value.n_bytes);
      if (const auto got = store_->get(key, bytes.view()).wait(); !got.ok()) return got.error().message;
      if (!bytes.holds(value.seed)) return "key " + std::to_string(key) + " has other bytes";
    }
    return left_behind();
  }

  /// A data file of each folder, and the manifest.
  std::string left_behind() const {
    std::string names;
    std::size_t n_data = 0;
    for (const auto& folder : folders_below(root_, layout_)) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        names += " " + entry.path().filename().string();
        n_data += entry.path().extension() == ".data" ? 1 : 0;
      }
    }
    return n_data == layout_.n_folders ? "" : "there is more than its files:" + names;
  }

  const std::string root_;
  const Layout layout_;
  std::unique_ptr<TensorStore> store_;
};

std::size_t n_states_asked() {
  const char* asked = std::getenv("CASTOR_TORN_STATES");
  return asked ? std::strtoull(asked, nullptr, 10) : 2400;
}

struct Tally {
  std::size_t n_states = 0;
  std::size_t n_damaged = 0;
  std::string example;  ///< the damage found last
};

/// Makes runs, cuts them and checks the states left. A run begins with an empty store, or continues from a cut of the
/// run before.
class PowerCuts {
 public:
  explicit PowerCuts(const Layout& layout, std::uint64_t seed, TornDrive::SyncFilter ignored = {})
      : layout_(layout), ignored_(std::move(ignored)), random_(seed) {}

  /// Ends at the first damage where every sync counts.
  Tally take(std::size_t n_states) {
    while (tally_.n_states < n_states && (ignored_ || tally_.n_damaged == 0)) {
      if (!root_ || ignored_ || random_() % 4 == 0) begin_anew();
      StoreRun run(root_->path(), layout_, random_(), first_);
      run.drive().ignore_syncs_of(ignored_);
      run.go();
      for (std::size_t i = 0; i < kCutsPerRun; ++i) cut(run);
      root_ = cut_to_go_on(run);
    }
    return tally_;
  }

 private:
  void begin_anew() {
    root_ = std::make_unique<ScratchFolder>(quick_parent_);
    for (const auto& folder : folders_below(root_->path(), layout_)) fs::create_directory(folder);
    first_ = {};
  }

  /// One in eight is among the first, while the store is opened.
  std::size_t any_moment(const StoreRun& run) {
    const auto n_moments = run.drive().n_moments() + 1;
    return random_() % (random_() % 8 == 0 ? std::min<std::size_t>(n_moments, 10) : n_moments);
  }

  Finding look(const ScratchFolder& state, const StoreRun& run, std::size_t moment) {
    auto finding = Inspection(state.path(), layout_).find(may_be_left(run.commits(), moment));
    ++tally_.n_states;
    if (finding.damage.empty()) return finding;
    ++tally_.n_damaged;
    tally_.example = "state " + std::to_string(tally_.n_states) + ", moment " + std::to_string(moment) + " of " +
                     std::to_string(run.drive().n_moments()) + ": " + finding.damage;
    return finding;
  }

  void cut(const StoreRun& run) {
    const auto seed = random_();
    const auto moment = any_moment(run);
    look(*run.drive().crash(seed, moment, quick_parent_), run, moment);
  }

  /// Makes the state twice, because checking it opens the store, which changes it. Null where it is damaged.
  std::unique_ptr<ScratchFolder> cut_to_go_on(const StoreRun& run) {
    const auto seed = random_();
    const auto moment = any_moment(run);
    const auto finding = look(*run.drive().crash(seed, moment, quick_parent_), run, moment);
    if (!finding.damage.empty()) return nullptr;
    first_ = *finding.commit;
    return run.drive().crash(seed, moment, quick_parent_);
  }

  const Layout layout_;
  const TornDrive::SyncFilter ignored_;
  const std::string quick_parent_ = ScratchFolder::quick_parent();
  std::mt19937_64 random_;
  std::unique_ptr<ScratchFolder> root_;
  Commit first_;  // the contents below the root
  Tally tally_;
};

class TornStoreTest : public ::testing::TestWithParam<std::tuple<std::size_t, bool>> {};

TEST_P(TornStoreTest, HoldsTheLastCommitOrTheOneUnderWayAtEveryMoment) {
  const auto [n_folders, checksums] = GetParam();
  const std::uint64_t seed = n_states_asked() + 2 * n_folders + (checksums ? 1 : 0);
  const auto tally = PowerCuts({n_folders, checksums}, seed).take(n_states_asked() / 4);
  EXPECT_EQ(tally.n_damaged, 0u) << "seed " << seed << ", " << tally.example;
  RecordProperty("states", static_cast<int>(tally.n_states));
}

INSTANTIATE_TEST_SUITE_P(Stores, TornStoreTest, ::testing::Combine(::testing::Values(1, 2), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == 1 ? "one_folder" : "two_folders") +
                                  (std::get<1>(info.param) ? "_with_checksums" : "_without_checksums");
                         });

bool ends_with(const std::string& name, const std::string& end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

/// Syncs that the drive ignores, each of which the store needs.
struct Control {
  const char* name;
  TornDrive::SyncFilter ignored;
};

class TornStoreControlTest : public ::testing::TestWithParam<Control> {};

TEST_P(TornStoreControlTest, IsFoundDamaged) {
  for (const Layout& layout : {Layout{1, true}, Layout{2, true}, Layout{2, false}}) {
    const auto tally = PowerCuts(layout, 1, GetParam().ignored).take(100);
    EXPECT_GE(tally.n_damaged, 10u) << layout.n_folders << " folders" << (layout.checksums ? ", checksums" : "");
    RecordProperty("damaged_" + std::to_string(layout.n_folders) + (layout.checksums ? "_checksums" : ""),
                   std::to_string(tally.n_damaged) + " of " + std::to_string(tally.n_states) + ": " + tally.example);
  }
}

const Control kControls[] = {
    {"without_syncs", [](const std::string&) { return true; }},
    {"without_syncs_of_data", [](const std::string& name) { return ends_with(name, ".data"); }},
    {"without_syncs_of_folders", [](const std::string& name) { return ends_with(name, "/"); }},
    {"without_syncs_of_the_manifest", [](const std::string& name) { return ends_with(name, "castor.manifest.tmp"); }},
};

INSTANTIATE_TEST_SUITE_P(Stores, TornStoreControlTest, ::testing::ValuesIn(kControls),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace castor::test
