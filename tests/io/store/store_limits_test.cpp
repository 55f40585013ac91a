// SPDX-License-Identifier: Apache-2.0
// A store where the machine refuses something, each refusal in a child process (store_child); and values of more bytes
// than 32 bits can count.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <castor/io/folder.h>
#include <castor/io/tensor_store.h>

#include "../../conformance/endless_buffer.h"
#include "../../support/run_command.h"
#include "../../support/sanitizers.h"
#include "../../support/scratch_folder.h"
#include "threads/threads_engine.h"

namespace castor::test {
namespace {

const std::string kStoreChild = CASTOR_STORE_CHILD;  // the paths, from Meson
const std::string kStoreWithoutIoUring = CASTOR_WITHOUT_IO_URING;

bool ends_well(const CommandOutcome& outcome) {
  const auto& text = outcome.output;
  return outcome.exit_code == 0 && text.size() >= 3 && text.compare(text.size() - 3, 3, "ok\n") == 0;
}

class StoreLimits : public ::testing::Test {
 protected:
  /// Runs `commands` with a tmpfs of `size` mounted at the scratch folder, in name spaces of their own. Exit code 77:
  /// the system refuses those.
  CommandOutcome run_on_tmpfs(const std::string& size, const std::string& commands) const {
    return run_command("unshare -Urm sh -c 'mount -t tmpfs -o size=" + size + " tmpfs " + folder_.path() +
                       " || exit 77; " + commands + "' || exit $?");
  }
  static bool no_name_spaces() { return run_command("unshare -Urm true").exit_code != 0; }
  /// The prefix that runs a command without root's rights.
  static std::string drop(const std::string& rights) {
    return geteuid() == 0 ? "setpriv --bounding-set=-" + rights + " --inh-caps=-" + rights + " " : "";
  }
  std::string child(const std::string& command, const std::string& more = "") const {
    return kStoreChild + " " + command + " " + folder_.path() + " " + more;
  }

  ScratchFolder folder_;
};

TEST_F(StoreLimits, AFullFileSystemIsAnErrorOfThePutAndTheStoreGoesOn) {
  if (no_name_spaces()) GTEST_SKIP() << "unshare -Urm is not allowed here";
  const auto outcome = run_on_tmpfs("8m", child("full"));
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  EXPECT_TRUE(ends_well(outcome)) << outcome.output;
  EXPECT_TRUE(contains(outcome, "No space left on device; free space there")) << outcome.output;
  EXPECT_TRUE(contains(outcome, "step 1 is not committed: key ")) << outcome.output;
}

TEST_F(StoreLimits, NoRoomForTheManifestIsAnErrorOfTheCommitAndTheStoreGoesOn) {
  if (no_name_spaces()) GTEST_SKIP() << "unshare -Urm is not allowed here";
  const auto outcome = run_on_tmpfs("8m", child("no-manifest"));
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  EXPECT_TRUE(ends_well(outcome)) << outcome.output;
  EXPECT_TRUE(contains(outcome, "step 1 is not committed: ")) << outcome.output;
  EXPECT_TRUE(contains(outcome, "castor.manifest.tmp: No space left on device; free space there")) << outcome.output;
}

TEST_F(StoreLimits, AFileThatMayNotGrowIsAnErrorOfThePut) {
  EXPECT_TRUE(ends_well(run_command(kStoreChild + " limit 3145728 steps " + folder_.path() + " 3")));
  const ScratchFolder other;
  const auto outcome = run_command(kStoreChild + " limit 3145728 steps " + other.path() + " 4");
  EXPECT_EQ(outcome.exit_code, 4) << outcome.output;
  EXPECT_TRUE(contains(outcome, "File too large; raise the limit on file sizes (ulimit -f)")) << outcome.output;
}

TEST_F(StoreLimits, MemoryThatMayNotBeLockedIsNotRegisteredAndWorks) {
  const std::string drop_lock = drop("ipc_lock");
  if (run_command(drop_lock + "true").exit_code != 0) GTEST_SKIP() << "setpriv cannot drop CAP_IPC_LOCK here";
  for (const char* kib : {"0", "8192"}) {
    const auto outcome =
        run_command(drop_lock + "sh -c 'ulimit -l " + kib + "; exec " + child("memory", "67108864") + "'");
    EXPECT_TRUE(ends_well(outcome)) << outcome.output;
    EXPECT_FALSE(contains(outcome, " took 67108864 bytes")) << kib << " KiB: " << outcome.output;
  }
  const auto free = run_command("sh -c 'ulimit -l unlimited && exec " + child("memory", "67108864") + "'");
  EXPECT_TRUE(contains(free, "io_uring took 67108864 bytes") || !contains(free, "io_uring")) << free.output;
}

TEST_F(StoreLimits, WhereASandboxRefusesIoUringTheStoreWorks) {
  const auto outcome = run_command(kStoreWithoutIoUring + " " + child("steps", "3"));
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  EXPECT_TRUE(ends_well(outcome)) << outcome.output;
}

TEST_F(StoreLimits, AReadOnlyFileSystemIsAnErrorWhenOpening) {
  if (no_name_spaces()) GTEST_SKIP() << "unshare -Urm is not allowed here";
  const auto fresh = run_on_tmpfs("8m,ro", child("steps", "1"));
  if (fresh.exit_code == 77) GTEST_SKIP() << fresh.output;
  EXPECT_EQ(fresh.exit_code, 4) << fresh.output;
  EXPECT_TRUE(contains(fresh, ": Read-only file system; mount it writable or name another folder")) << fresh.output;
  const auto remounted = "mount -o remount,ro " + folder_.path() + " && ";
  const auto known = run_on_tmpfs("8m", child("steps", "1") + " && " + remounted + child("steps", "1"));
  EXPECT_EQ(known.exit_code, 4) << known.output;
  EXPECT_TRUE(contains(known, ": Read-only file system; mount it writable or name another folder")) << known.output;
}

TEST_F(StoreLimits, AFolderWithoutTheRightToWriteIsAnErrorWhenOpening) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0555), 0);
  if (run_command(drop("all") + "true").exit_code != 0) GTEST_SKIP() << "setpriv cannot drop root's capabilities here";
  const auto outcome = run_command(drop("all") + child("steps", "1"));
  EXPECT_EQ(outcome.exit_code, 4) << outcome.output;
  EXPECT_TRUE(contains(outcome, ": Permission denied; give yourself the right to it (chmod u+rwx) or name another"))
      << outcome.output;
}

TEST_F(StoreLimits, AFolderThatIsRemovedCostsTheCommitsOnly) {
  const auto outcome = run_command(child("vanish"));
  EXPECT_TRUE(ends_well(outcome)) << outcome.output;
  EXPECT_TRUE(contains(outcome, "step 2 is not committed: ")) << outcome.output;
  EXPECT_TRUE(contains(outcome, folder_.path() + "/durable")) << outcome.output;
}

TEST_F(StoreLimits, AFolderMayBeALinkButNotAnothersTwin) {
  const ScratchFolder target;
  const std::string link = folder_.path() + "/link";
  std::filesystem::create_directory_symlink(target.path(), link);
  TensorStoreOptions options;
  for (const auto durability : {Durability::scratch, Durability::commit}) {
    options.durability = durability;
    options.folders = {link, target.path()};
    const auto refused = TensorStore::open(options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_EQ(refused.error().message, "folder " + std::string(target.path()) + " is named twice, the other time as " +
                                           link + "; name each folder once");
    EXPECT_TRUE(target.empty());
    options.folders = {link};
    EXPECT_TRUE(TensorStore::open(options).ok());
  }
  EXPECT_FALSE(target.empty()) << "the durable store is behind the link";
}

// ---- more than 4 GiB ----

/// A drive of any size that stores only the pages which are not all zeros. Does not support writing a page twice.
///
/// Threads: any.
class SparseDrive {
 public:
  std::int64_t call(const TransferPart& part) {
    part.op == IoOp::write ? write(part) : read(part);
    return static_cast<std::int64_t>(part.n_bytes);
  }
  std::size_t n_pages() const { return pages_.size(); }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  using Page = std::array<std::byte, kPageBytes>;

  void write(const TransferPart& part) {
    static const Page kZeros{};
    for (std::uint64_t at = 0; at < part.n_bytes; at += kPageBytes) {
      if (std::memcmp(part.data + at, kZeros.data(), kPageBytes) == 0) continue;
      const std::lock_guard lock(mutex_);
      std::memcpy(pages_[part.offset_bytes + at].data(), part.data + at, kPageBytes);
    }
  }
  void read(const TransferPart& part) {
    std::memset(part.data, 0, part.n_bytes);
    const std::lock_guard lock(mutex_);
    const auto end = pages_.lower_bound(part.offset_bytes + part.n_bytes);
    for (auto page = pages_.lower_bound(part.offset_bytes); page != end; ++page)
      std::memcpy(part.data + (page->first - part.offset_bytes), page->second.data(), kPageBytes);
  }

  std::mutex mutex_;
  std::map<std::uint64_t, Page> pages_;
};

/// A value of more than 4 GiB in address space over a few pages, with different pages of its own at the ends and around
/// 2^31 and 2^32 bytes.
class HugeValue {
 public:
  static constexpr std::uint64_t kBytes = 4 * kGiB + 3 * kMiB + 777;

  HugeValue() {
    for (const auto offset_bytes : kMarked) pages_.push_back(make_distinct(offset_bytes));
  }
  BufferView view() const { return range_.view().part(0, kBytes); }
  void mark() const {
    for (std::size_t i = 0; i < pages_.size(); ++i)
      std::memset(pages_[i].data, static_cast<int>(i) + 1, value_bytes(i));
  }
  bool is_marked() const {
    bool all = true;
    for (std::size_t i = 0; i < pages_.size(); ++i)
      for (std::uint64_t b = 0; b < 4096; ++b)
        all = all && pages_[i].data[b] == (b < value_bytes(i) ? static_cast<std::byte>(i + 1) : std::byte{0});
    return all;
  }

 private:
  static constexpr std::uint64_t kMarked[] = {0, 3 * kMiB, 2 * kGiB, 4 * kGiB - 4096, 4 * kGiB, 4 * kGiB + 3 * kMiB};
  static std::uint64_t value_bytes(std::size_t i) { return std::min<std::uint64_t>(4096, kBytes - kMarked[i]); }

  BufferView make_distinct(std::uint64_t offset_bytes) const {
    const BufferView page = range_.view().part(offset_bytes, 4096);
    void* mapped =
        mmap(page.data, page.n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT_EQ(mapped, page.data);
    return page;
  }

  EndlessBuffer range_{257};  // of 16 MiB
  std::vector<BufferView> pages_;
};

void expect_back(TensorStore& store) {
  const HugeValue out, in;
  out.mark();
  store.put(1, out.view()).wait().value();
  store.get(1, in.view()).wait().value();
  EXPECT_TRUE(in.is_marked());
  EXPECT_EQ(store.stats().allocated_bytes, 4 * kGiB + 3 * kMiB + 4096);
}

TEST_F(StoreLimits, ValuesBeyondFourGiBComeBack) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer walks over every byte: a minute";
  if (available_bytes(folder_.path()).value() < 12 * kGiB) GTEST_SKIP() << "less than 12 GiB are free on the drive";
  SparseDrive drive;
  auto engine = std::make_unique<ThreadsEngine>(IoEngineOptions{}, ThreadsEngine::Identity{"threads", {}},
                                                [&drive](const TransferPart& part) { return drive.call(part); });
  TensorStoreOptions options;
  options.folders = {folder_.path()};
  expect_back(*TensorStore::open(options, std::move(engine)).value());
  EXPECT_EQ(drive.n_pages(), 6u);
}

/// The same on the drive itself.
TEST(StoreSoak, ValuesBeyondFourGiBComeBack) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer walks over every byte: a minute";
  const ScratchFolder folder;
  if (available_bytes(folder.path()).value() < 12 * kGiB) GTEST_SKIP() << "less than 12 GiB are free on the drive";
  for (const auto engine : {EngineChoice::best, EngineChoice::threads}) {
    TensorStoreOptions options;
    options.folders = {folder.path()};
    options.engine = engine;
    expect_back(*TensorStore::open(options).value());
  }
}

}  // namespace
}  // namespace castor::test
