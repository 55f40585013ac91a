// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/worker_thread.h>

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace castor {
namespace {

TEST(WorkerThread, RunsTasksInTheirOrderOnOneOtherThread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  WorkerThread worker;
  Event last;
  for (int k = 0; k < 100; ++k)
    last = worker.run([&, k]() -> Result<void> {
      order.push_back(k);
      threads.push_back(std::this_thread::get_id());
      return {};
    });
  ASSERT_TRUE(last.wait().ok());
  for (int k = 0; k < 100; ++k) EXPECT_EQ(order[k], k);
  EXPECT_NE(threads[0], std::this_thread::get_id());
  EXPECT_EQ(threads[0], threads[99]);
}

TEST(WorkerThread, HandsEachTaskItsOwnOutcome) {
  WorkerThread worker;
  const auto bad = worker.run([]() -> Result<void> { return Error{ErrorKind::io, "torn page"}; });
  const auto good = worker.run([]() -> Result<void> { return {}; });
  EXPECT_EQ(bad.wait().error().message, "torn page");
  EXPECT_TRUE(good.wait().ok());
}

TEST(WorkerThread, LetsGoOfTheTaskBeforeItsEndIsHeardOf) {
  WorkerThread worker;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  const auto done = worker.run([held = std::move(held)]() -> Result<void> { return {}; });
  ASSERT_TRUE(done.wait().ok());
  EXPECT_TRUE(watched.expired());
}

TEST(WorkerThread, RunsWhatIsQueuedBeforeItEnds) {
  int n_run = 0;
  std::optional<WorkerThread> worker(std::in_place);
  for (int k = 0; k < 50; ++k)
    worker->run([&]() -> Result<void> {
      ++n_run;
      return {};
    });
  worker.reset();
  EXPECT_EQ(n_run, 50);
}

}  // namespace
}  // namespace castor
