// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_team.h>

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace castor {
namespace {

/// An event that the test completes.
class Gate {
 public:
  Event event() const { return Event(state_); }
  void open(Result<void> outcome = {}) { state_->complete(std::move(outcome)); }

 private:
  const std::shared_ptr<HostEventState> state_ = std::make_shared<HostEventState>();
};

/// Numbers in the order in which they were noted, by any thread.
class Notes {
 public:
  HostTeam::Job job(int number, std::uint64_t urgency, std::vector<Event> after = {}) {
    return {urgency, std::move(after), 1, [this, number](std::uint32_t) { return note(number); }};
  }
  Result<void> note(int number) {
    const std::lock_guard lock(mutex_);
    numbers_.push_back(number);
    return {};
  }
  std::vector<int> numbers() const {
    const std::lock_guard lock(mutex_);
    return numbers_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int> numbers_;
};

/// A job that keeps a thread busy until `gate`.
HostTeam::Job until(const Gate& gate) {
  return {0, {}, 1, [event = gate.event()](std::uint32_t) { return event.wait(); }};
}

TEST(HostTeam, RunsEveryPartOnce) {
  const auto team = make_host_team(3).value();
  std::vector<std::atomic<int>> n_run(1000);
  const Event done = team->add({0, {}, 1000, [&](std::uint32_t part) { return ++n_run[part], Result<void>(); }});
  done.wait().value();
  for (const auto& n : n_run) EXPECT_EQ(n, 1);
}

TEST(HostTeam, LeavesCpusToOthers) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "there is one CPU";
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  const auto team = make_host_team(2, 1).value();
  const auto runs_elsewhere = [first](std::uint32_t) -> Result<void> {
    return sched_getcpu() == first ? Result<void>(Error{ErrorKind::failed, "on a spared CPU"}) : Result<void>();
  };
  team->add({0, {}, 1000, runs_elsewhere}).wait().value();
}

TEST(HostTeam, AJobWithoutPartsEnds) {
  const auto team = make_host_team(1).value();
  team->add({0, {}, 0, [](std::uint32_t) -> Result<void> { return Error{ErrorKind::failed, "ran"}; }}).wait().value();
}

TEST(HostTeam, TheMostUrgentGoesFirstAndOfEqualOnesTheFirstHandedIn) {
  Notes notes;
  const auto team = make_host_team(1).value();
  Gate gate;
  (void)team->add(until(gate));
  std::vector<Event> done;
  int number = 0;
  for (const std::uint64_t urgency : {7, 3, 9, 3, 0, 7}) done.push_back(team->add(notes.job(number++, urgency)));
  gate.open();
  for (const Event& event : done) event.wait().value();
  EXPECT_EQ(notes.numbers(), (std::vector{4, 1, 3, 0, 5, 2}));
}

TEST(HostTeam, AMoreUrgentJobComesBetweenTheParts) {
  Notes notes;
  Gate begun, more;
  const auto team = make_host_team(1).value();
  const auto part = [&](std::uint32_t i) -> Result<void> {
    if (i == 0) begun.open(), (void)more.event().wait();
    return notes.note(static_cast<int>(i));
  };
  const Event slow = team->add({5, {}, 3, part});
  begun.event().wait().value();
  const Event urgent = team->add(notes.job(100, 1));
  more.open();
  slow.wait().value();
  urgent.wait().value();
  EXPECT_EQ(notes.numbers(), (std::vector{0, 100, 1, 2}));
}

TEST(HostTeam, AJobBeginsWhenAllThatItWaitsForIsThereAndHoldsUpNoOther) {
  Notes notes;
  Gate first, second;
  const auto team = make_host_team(1).value();
  const Event waits = team->add(notes.job(0, 0, {first.event(), second.event()}));
  team->add(notes.job(1, 9)).wait().value();
  second.open();
  team->add(notes.job(2, 9)).wait().value();
  EXPECT_FALSE(waits.ready());
  first.open();
  waits.wait().value();
  EXPECT_EQ(notes.numbers(), (std::vector{1, 2, 0}));
}

TEST(HostTeam, UrgentJobsAreNotHeldUpByManyOthersThatWait) {
  Notes notes;
  const auto team = make_host_team(1).value();
  Gate busy, outside;
  (void)team->add(until(busy));
  std::vector<Event> done;
  for (int chain = 0; chain < 100; ++chain) {
    done.push_back(team->add(notes.job(1000 + chain, 7)));
    done.push_back(team->add(notes.job(2000 + chain, 7, {done.back()})));
  }
  Event last = outside.event();
  for (int number = 0; number < 5; ++number) done.push_back(last = team->add(notes.job(number, 3, {last})));
  outside.open();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until the watcher has queried it
  busy.open();
  for (const Event& event : done) event.wait().value();
  const auto order = notes.numbers();
  EXPECT_EQ(std::vector(order.begin(), order.begin() + 5), (std::vector{0, 1, 2, 3, 4}));
}

TEST(HostTeam, NoMoreThreadsWorkThanItIsTold) {
  const auto team = make_host_team(4).value();
  std::atomic<int> n_running = 0, most = 0;
  const auto run = [&](std::uint32_t) -> Result<void> {
    const int n = ++n_running;
    for (int seen = most; seen < n && !most.compare_exchange_weak(seen, n);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --n_running;
    return {};
  };
  team->limit_threads(2);
  team->add({0, {}, 40, run}).wait().value();
  EXPECT_EQ(most, 2);

  Gate gate;  // two threads wait at it; once the limit is lifted the others run the queued parts
  std::vector<Event> held = {team->add(until(gate)), team->add(until(gate))};
  std::atomic<int> n_more = 0;
  const Event more = team->add({1, {}, 10, [&](std::uint32_t) { return ++n_more, Result<void>(); }});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(n_more, 0);
  team->limit_threads(4);
  more.wait().value();
  gate.open();
  for (const Event& event : held) event.wait().value();
}

TEST(HostTeam, JobsMayWaitForOneAnother) {
  Notes notes;
  Gate gate;
  const auto team = make_host_team(2).value();
  Event last = gate.event();
  for (int number = 0; number < 40; ++number) last = team->add(notes.job(number, 40 - number, {last}));
  gate.open();
  last.wait().value();
  for (int number = 0; number < 40; ++number) EXPECT_EQ(notes.numbers()[static_cast<std::size_t>(number)], number);
}

TEST(HostTeam, AFailureEndsItsJobAndNoOther) {
  const auto team = make_host_team(1).value();
  std::atomic<int> n_run = 0;
  const Event bad = team->add({0, {}, 100, [&](std::uint32_t part) -> Result<void> {
                                 ++n_run;
                                 if (part == 3) return Error{ErrorKind::io, "torn page"};
                                 return {};
                               }});
  const Event good = team->add({1, {}, 1, [](std::uint32_t) { return Result<void>(); }});
  EXPECT_EQ(bad.wait().error().message, "torn page");
  good.wait().value();
  EXPECT_EQ(n_run, 4) << "parts not begun are left out";
}

TEST(HostTeam, WhatWaitsForAFailureEndsWithItAndDoesNotRun) {
  Notes notes;
  Gate gate;
  const auto team = make_host_team(2).value();
  const Event late = team->add(notes.job(0, 0, {gate.event()}));
  gate.open(Error{ErrorKind::io, "no such bytes"});
  EXPECT_EQ(late.wait().error().message, "no such bytes");
  EXPECT_EQ(team->add(notes.job(1, 0, {gate.event()})).wait().error().message, "no such bytes");
  EXPECT_TRUE(notes.numbers().empty());
}

TEST(HostTeam, RunsWhatIsQueuedBeforeItEnds) {
  std::atomic<int> n_run = 0;
  Gate gate;
  std::thread opener;
  {
    const auto team = make_host_team(2).value();
    for (int i = 0; i < 20; ++i)
      (void)team->add({0, {gate.event()}, 5, [&](std::uint32_t) { return ++n_run, Result<void>(); }});
    opener = std::thread([&gate] { gate.open(); });
  }
  opener.join();
  EXPECT_EQ(n_run, 100);
}

TEST(HostTeam, LetsGoOfTheJobBeforeItsEndIsHeardOf) {
  const auto team = make_host_team(1).value();
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  team->add({0, {}, 1, [held = std::move(held)](std::uint32_t) { return Result<void>(); }}).wait().value();
  EXPECT_TRUE(watched.expired());
}

/// Three parts of 20 ms by two threads are 30 ms of the team, whatever else runs; jobs before and after count apart.
TEST(HostTeam, ItsTimeIsThatOfTheWholeTeam) {
  const auto team = make_host_team(2).value();
  const auto nap = [](std::uint32_t) {
    return std::this_thread::sleep_for(std::chrono::milliseconds(20)), Result<void>();
  };
  const auto start = team->time();
  (void)team->add({0, {}, 3, nap});
  const auto between = team->time();
  (void)team->add({0, {}, 1, nap});
  const auto end = team->time();
  EXPECT_GE(between->seconds_since(*start).value(), 0.030);
  EXPECT_GE(end->seconds_since(*between).value(), 0.010);
  EXPECT_DOUBLE_EQ(end->seconds_since(*start).value(),
                   between->seconds_since(*start).value() + end->seconds_since(*between).value());
}

TEST(HostTeam, RandomJobsEndAfterWhatTheyWaitFor) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    constexpr std::size_t kJobs = 60;
    std::vector<std::atomic<std::uint32_t>> n_run(kJobs);
    std::vector<std::uint32_t> n_parts(kJobs);
    std::atomic<int> n_wrong = 0;
    std::vector<Event> done;
    const auto team = make_host_team(1 + static_cast<unsigned>(seed % 4)).value();
    for (std::size_t i = 0; i < kJobs; ++i) {
      std::vector<std::size_t> others;
      std::vector<Event> after;
      for (std::uint64_t k = random() % 3; k > 0 && i > 0; --k) others.push_back(random() % i);
      for (const std::size_t other : others) after.push_back(done[other]);
      n_parts[i] = static_cast<std::uint32_t>(random() % 8);
      const auto run = [&, i, others](std::uint32_t) -> Result<void> {
        for (const std::size_t other : others) n_wrong += n_run[other] != n_parts[other];
        ++n_run[i];
        return {};
      };
      done.push_back(team->add({random() % 5, std::move(after), n_parts[i], run}));
    }
    for (const Event& event : done) event.wait().value();
    EXPECT_EQ(n_wrong, 0);
    for (std::size_t i = 0; i < kJobs; ++i) EXPECT_EQ(n_run[i], n_parts[i]);
  }
}

}  // namespace
}  // namespace castor
