// SPDX-License-Identifier: Apache-2.0
// The fault matrix: for n = 1, 2, 3 … the n-th call of a durable store to the kernel, or to its folders, fails in each
// known way, until a run has fewer than n calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fault_matrix.h"
#include "../engine/faulty_kernel.h"
#include "files/folder_ops.h"
#include "../../support/drives/faulty_engine.h"
#include "../../support/drives/faulty_folder_ops.h"

namespace castor::test {
namespace {

using Allowed = FaultCase::Allowed;
using Kind = CallFault::Kind;
constexpr std::chrono::milliseconds kTimeout{40};

// ---- faults of the kernel ----

/// The threads engine on a kernel whose n-th call fails.
FaultCase kernel_case(const std::string& name, Allowed allowed, CallFault fault) {
  FaultCase made{"threads, " + name, allowed, {}};
  made.damages = fault.kind == Kind::flip_write || fault.kind == Kind::lose_write;
  made.timeout = fault.timeout;
  made.make = [fault](std::uint64_t nth, std::uint64_t sector_bytes) {
    const auto kernel = std::make_shared<FaultyKernel>(nth, fault, sector_bytes);
    IoEngineOptions options;
    options.n_threads = 3;
    FaultyParts parts;
    parts.engine = std::make_unique<ThreadsEngine>(options, ThreadsEngine::Identity{"threads", {}},
                                                   [kernel](const TransferPart& part) { return kernel->call(part); });
    parts.reached = [kernel] { return kernel->reached(); };
    parts.heal = [kernel] { kernel->heal(); };
    parts.holds = [kernel] { return kernel->holds(); };
    parts.release = [kernel] { kernel->release(); };
    return parts;
  };
  return made;
}

/// An engine between the store and io_uring that treats the n-th request wrongly.
FaultCase request_case(const std::string& name, Allowed allowed, Fault fault) {
  FaultCase made{"io_uring, " + name, allowed, {}};
  made.damages = fault.kind == Fault::Kind::corrupt || fault.kind == Fault::Kind::lose;
  made.make = [fault](std::uint64_t nth, std::uint64_t) {
    const auto script = std::make_shared<FaultyEngine::Script>();
    script->set(nth, fault);
    FaultyParts parts;
    parts.engine = std::make_unique<FaultyEngine>(make_io_engine(EngineChoice::best).value(), script);
    parts.reached = [script] { return script->reached(); };
    parts.heal = [script] { script->clear(); };
    parts.holds = [script] { return script->holds(); };
    parts.release = [script] { script->release(); };
    return parts;
  };
  return made;
}

std::vector<FaultCase> kernel_cases() {
  return {kernel_case("EIO", Allowed::errors, {Kind::fail, EIO}),
          kernel_case("ENOSPC", Allowed::errors, {Kind::fail, ENOSPC}),
          kernel_case("EINTR", Allowed::nothing, {Kind::fail, EINTR}),
          kernel_case("EAGAIN once", Allowed::nothing, {Kind::fail, EAGAIN}),
          kernel_case("a sector short", Allowed::nothing, {Kind::shorten}),
          kernel_case("0 bytes moved", Allowed::either, {Kind::nothing}),
          kernel_case("late", Allowed::nothing, {Kind::late}),
          kernel_case("a bit flipped in a read", Allowed::errors, {Kind::flip_read}),
          kernel_case("a bit flipped in a write", Allowed::either, {Kind::flip_write}),
          kernel_case("a write lost", Allowed::either, {Kind::lose_write}),
          kernel_case("a stale read", Allowed::errors, {Kind::stale_read})};
}

std::vector<FaultCase> request_cases() {
  return {request_case("EIO", Allowed::errors, Fault::fail(EIO)), request_case("late", Allowed::nothing, Fault::hold()),
          request_case("a bit flipped", Allowed::either, Fault::corrupt()),
          request_case("lost", Allowed::either, Fault::lose())};
}

/// Files and names in the folders: the work of a commit and an opening beside moving values.
FaultCase folder_case(const std::string& name, int error_number, bool for_ever) {
  FaultCase made{"folders, " + name, Allowed::errors, {}};
  made.leaves_doubt = true;
  made.make = [error_number, for_ever](std::uint64_t nth, std::uint64_t) {
    static SystemFolderOps system;
    auto ops = std::make_unique<FaultyFolderOps>(system, nth, error_number, for_ever);
    FaultyParts parts;
    parts.reached = [faulty = ops.get()] { return faulty->reached(); };
    parts.folder_ops = std::move(ops);
    return parts;
  };
  return made;
}

std::vector<FaultCase> folder_cases() {
  std::vector<FaultCase> cases;
  for (const auto& [name, error_number] : {std::pair{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EACCES", EACCES}}) {
    cases.push_back(folder_case(name, error_number, false));
    cases.push_back(folder_case(name + std::string(" for ever"), error_number, true));
  }
  return cases;
}

// ---- the matrix ----

class StoreFaults : public FaultMatrix {};

TEST_P(StoreFaults, TheNthCallGoesWrong) { run_until_not_reached(); }

const auto name_of = [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
};
INSTANTIATE_TEST_SUITE_P(OfTheKernel, StoreFaults, ::testing::ValuesIn(kernel_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(OfTheEngine, StoreFaults, ::testing::ValuesIn(request_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(OfTheFolders, StoreFaults, ::testing::ValuesIn(folder_cases()), name_of);

class StoreStalls : public FaultMatrix {};

TEST_P(StoreStalls, TheNthCallGoesWrongForEver) { run_at_once(); }

INSTANTIATE_TEST_SUITE_P(OfTheKernel, StoreStalls,
                         ::testing::Values(kernel_case("EAGAIN for ever", Allowed::errors, {Kind::fail_ever, EAGAIN}),
                                           kernel_case("later than the timeout", Allowed::errors,
                                                       {Kind::outlast, 0, kTimeout})),
                         name_of);

// ---- opening an existing store ----

class StoreOpeningFaults : public ::testing::TestWithParam<int> {};

TEST_P(StoreOpeningFaults, AreErrorsThatCostNothing) {
  const ScratchFolder folder(ScratchFolder::quick_parent());
  Budget budget(Tier::nvme, kMiB);
  const TensorStoreOptions options{{folder.path()}, &budget, EngineChoice::threads, true, Durability::commit};
  const TestBuffer out(100000, 1), in(100000);
  {
    const auto store = TensorStore::open(options).value();
    store->put(1, out.view()).wait().value();
    store->commit(1).wait().value();
  }
  SystemFolderOps system;
  std::uint64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    auto faulty = std::make_unique<FaultyFolderOps>(system, nth, GetParam());
    const auto opened = TensorStore::open(options, nullptr, std::move(faulty));
    failed = !opened.ok();
    if (!failed) continue;
    EXPECT_EQ(opened.error().kind, ErrorKind::io);
    EXPECT_NE(opened.error().message.find(folder.path()), std::string::npos) << opened.error().message;
    const auto store = TensorStore::open(options).value();
    EXPECT_EQ(store->committed_step(), 1u);
    store->get(1, in.view()).wait().value();
    EXPECT_TRUE(in.holds(1));
  }
  EXPECT_EQ(nth, 7u);  // the manifest is read, the folder listed for data and twice for leftovers, and synced
}

INSTANTIATE_TEST_SUITE_P(, StoreOpeningFaults, ::testing::Values(EIO, ENOSPC, EACCES));

}  // namespace
}  // namespace castor::test
