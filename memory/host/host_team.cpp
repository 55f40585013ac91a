// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_team.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include <castor/memory/clock.h>
#include <castor/memory/host_cpus.h>
#include <castor/memory/quiet_thread.h>
#include <castor/memory/system_limit.h>

namespace castor {
namespace {

/// Interval at which the watcher queries the events that jobs wait for: a device's events notify no thread, they can
/// only be queried, or waited for one by one. A query takes a lock of the driver, for which the thread that queues the
/// device's work may be waiting; a job takes milliseconds.
constexpr std::chrono::microseconds kAskEvery{100};

/// Events that are found unreached before the watcher stops to ask. Events are reached about in the order in which the
/// jobs were added that wait for them.
constexpr std::size_t kMostUnreached = 16;

/// Busy time of the jobs that were added between two calls of time().
class Account {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    ++n_open_;
  }
  void close(std::uint64_t busy_ns) {
    {
      const std::lock_guard lock(mutex_);
      busy_ns_ += busy_ns, --n_open_;
    }
    closed_.notify_all();
  }
  /// Waits until all jobs are closed.
  std::uint64_t busy_ns() const {
    std::unique_lock lock(mutex_);
    closed_.wait(lock, [this] { return n_open_ == 0; });
    return busy_ns_;
  }
  /// Waits until then, or until `deadline`; whether all jobs are closed.
  bool closed_by(std::chrono::steady_clock::time_point deadline) const {
    std::unique_lock lock(mutex_);
    return closed_.wait_until(lock, deadline, [this] { return n_open_ == 0; });
  }

  std::shared_ptr<Account> next;  // owners: this, and the times that begin with it; set before any job is added to it

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable closed_;
  std::uint64_t busy_ns_ = 0;  // guarded by mutex_
  std::uint64_t n_open_ = 0;   // guarded by mutex_
};

class TeamTime final : public StreamTime {
 public:
  TeamTime(std::shared_ptr<const Account> from_here, unsigned n_threads)
      : from_here_(std::move(from_here)), n_threads_(n_threads) {}

  Result<double> seconds_since(const StreamTime& earlier) const override {
    const auto* begin = dynamic_cast<const TeamTime*>(&earlier);
    if (!begin) throw ContractViolation("HostTeam: its time is compared with another's");
    double sum_ns = 0;
    for (const Account* account = begin->from_here_.get(); account != from_here_.get(); account = account->next.get())
      sum_ns += static_cast<double>(account->busy_ns());
    return sum_ns * 1e-9 / n_threads_;
  }

  bool known_since(const StreamTime& earlier, std::chrono::nanoseconds limit) const override {
    const auto* begin = dynamic_cast<const TeamTime*>(&earlier);
    if (!begin) throw ContractViolation("HostTeam: its time is compared with another's");
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (const Account* account = begin->from_here_.get(); account != from_here_.get(); account = account->next.get())
      if (!account->closed_by(deadline)) return false;
    return true;
  }

 private:
  const std::shared_ptr<const Account> from_here_;  // owners: this, the account before, jobs
  const unsigned n_threads_;
};

struct Entry {
  HostTeam::Job job;
  std::uint64_t number = 0;
  std::shared_ptr<HostEventState> done = std::make_shared<HostEventState>();  // owners: this and the caller's Event
  std::shared_ptr<Account> account;
  std::uint32_t n_begun = 0, n_running = 0;
  std::uint64_t busy_ns = 0;
  Result<void> outcome;

  bool all_begun() const { return n_begun == job.n_parts || !outcome.ok(); }
  bool reached() const {
    std::vector<const EventState*> unreached;
    return reached_beside(unreached);
  }
  /// The same, without a query of events that follow one of `unreached`, where an event is added that is found so.
  bool reached_beside(std::vector<const EventState*>& unreached) const {
    for (const Event& event : job.after) {
      const auto followed = [&event](const EventState* earlier) {
        return event.state() == earlier || event.state()->follows(*earlier);
      };
      if (event.state() == nullptr) continue;
      if (unreached.size() == kMostUnreached || std::any_of(unreached.begin(), unreached.end(), followed)) return false;
      if (event.ready()) continue;
      unreached.push_back(event.state());
      return false;
    }
    return true;
  }
  /// Takes over the failure of the reached events, if any.
  void settle() {
    for (const Event& event : job.after)
      if (auto ended = event.wait(); outcome.ok()) outcome = std::move(ended);
    job.after.clear();
  }
};

using EntryPtr = std::shared_ptr<Entry>;  // owners: a queue of the team, and the threads that run its parts

class ThreadTeam final : public HostTeam {
 public:
  /// Throws std::system_error where the system gives no thread.
  ThreadTeam(unsigned n_threads, unsigned n_spared_cpus);
  ~ThreadTeam() override { stop(); }

  Event add(Job job) override;
  void limit_threads(unsigned n_threads) override;
  std::unique_ptr<StreamTime> time() override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void stop();
  void work();
  void place(Lock& lock, std::vector<EntryPtr> entries);
  bool put_behind(EntryPtr& entry);
  void run_part(Lock& lock, const EntryPtr& entry);
  void finish(Lock& lock, const EntryPtr& entry);
  void watch();
  void ask(Lock& lock);
  void make_ready(EntryPtr entry);

  const unsigned n_threads_;
  std::mutex mutex_;
  std::condition_variable work_, watch_;
  std::vector<EntryPtr> ready_;  // guarded by mutex_; a heap, the most urgent on top
  /// Guarded by mutex_. Jobs that wait for other events than the ends of the team's jobs, in the order of adding.
  std::deque<EntryPtr> waiting_;
  /// Guarded by mutex_. For each job that has not ended, the jobs that wait for it (and possibly for more).
  std::unordered_map<const EventState*, std::vector<EntryPtr>> behind_;
  std::shared_ptr<Account> account_ = std::make_shared<Account>();  // guarded by mutex_; of the jobs added now
  std::uint64_t n_added_ = 0, n_ended_ = 0;                         // guarded by mutex_
  unsigned limit_ = n_threads_, n_working_ = 0;                     // guarded by mutex_; threads that run parts
  bool stopping_ = false;                                           // guarded by mutex_
  std::vector<std::thread> threads_;                                // last: they use all of the above
};

bool less_urgent(const EntryPtr& a, const EntryPtr& b) {
  return std::pair(a->job.urgency, a->number) > std::pair(b->job.urgency, b->number);
}

ThreadTeam::ThreadTeam(unsigned n_threads, unsigned n_spared_cpus) : n_threads_(n_threads) {
  const auto body = [this, n_spared_cpus] {
    leave_cpus(n_spared_cpus);
    work();
  };
  try {
    for (unsigned i = 0; i < n_threads; ++i) threads_.push_back(start_quiet_thread("castor-team", body));
    threads_.push_back(start_quiet_thread("castor-watch", [this] { watch(); }));
  } catch (const std::system_error&) {
    stop();
    throw;
  }
}

Event ThreadTeam::add(Job job) {
  auto entry = std::make_shared<Entry>();
  entry->job = std::move(job);
  Event done(entry->done);
  Lock lock(mutex_);
  entry->number = n_added_++;
  entry->account = account_;
  account_->open();
  behind_[entry->done.get()];
  place(lock, {std::move(entry)});
  return done;
}

/// Puts each entry behind a job that must end first, into ready_, or into waiting_ where it waits for events other than
/// jobs' ends. The mutex is released while those events are queried, which may call a device's driver.
void ThreadTeam::place(Lock& lock, std::vector<EntryPtr> entries) {
  std::vector<EntryPtr> behind_none;
  for (EntryPtr& entry : entries)
    if (!put_behind(entry)) behind_none.push_back(std::move(entry));
  if (behind_none.empty()) return;
  lock.unlock();
  const auto waiting = std::stable_partition(behind_none.begin(), behind_none.end(), [](const EntryPtr& entry) {
    const bool reached = entry->reached();
    if (reached) entry->settle();
    return reached;
  });
  lock.lock();
  std::for_each(behind_none.begin(), waiting, [this](EntryPtr& entry) { make_ready(std::move(entry)); });
  if (waiting == behind_none.end()) return;
  std::move(waiting, behind_none.end(), std::back_inserter(waiting_));
  watch_.notify_one();
}

/// True where `entry` waits for a job that has not ended; it is then behind that job.
bool ThreadTeam::put_behind(EntryPtr& entry) {
  for (const Event& event : entry->job.after) {
    const auto job = behind_.find(event.state());
    if (job == behind_.end() || event.ready()) continue;
    job->second.push_back(std::move(entry));
    return true;
  }
  return false;
}

void ThreadTeam::limit_threads(unsigned n_threads) {
  const Lock lock(mutex_);
  limit_ = n_threads;
  work_.notify_all();
}

std::unique_ptr<StreamTime> ThreadTeam::time() {
  const Lock lock(mutex_);
  account_->next = std::make_shared<Account>();
  account_ = account_->next;
  return std::make_unique<TeamTime>(account_, n_threads_);
}

void ThreadTeam::make_ready(EntryPtr entry) {
  const bool many = entry->job.n_parts > 1;
  ready_.push_back(std::move(entry));
  std::push_heap(ready_.begin(), ready_.end(), less_urgent);
  many ? work_.notify_all() : work_.notify_one();
}

void ThreadTeam::work() {
  Lock lock(mutex_);
  while (true) {
    work_.wait(lock,
               [this] { return (!ready_.empty() && n_working_ < limit_) || (stopping_ && n_ended_ == n_added_); });
    if (ready_.empty()) return;
    ++n_working_;
    run_part(lock, EntryPtr(ready_.front()));
    --n_working_;
  }
}

/// Runs the next part of `entry`. The thread that takes the last part takes the entry off the heap; the thread that
/// ends last finishes the job.
void ThreadTeam::run_part(Lock& lock, const EntryPtr& entry) {
  ++entry->n_running;
  const bool left_out = entry->all_begun();
  const std::uint32_t part = left_out ? 0 : entry->n_begun++;
  if (entry->all_begun()) {
    std::pop_heap(ready_.begin(), ready_.end(), less_urgent);
    ready_.pop_back();
  }
  if (!left_out) {
    lock.unlock();
    const std::uint64_t start_ns = steady_now_ns();
    auto outcome = entry->job.run(part);
    const std::uint64_t took_ns = steady_now_ns() - start_ns;
    lock.lock();
    entry->busy_ns += took_ns;
    const bool was_on_heap = !entry->all_begun();
    if (entry->outcome.ok()) entry->outcome = std::move(outcome);
    if (was_on_heap && entry->all_begun()) {
      std::erase(ready_, entry);
      std::make_heap(ready_.begin(), ready_.end(), less_urgent);
    }
  }
  if (--entry->n_running == 0 && entry->all_begun()) finish(lock, entry);
}

void ThreadTeam::finish(Lock& lock, const EntryPtr& entry) {
  lock.unlock();
  entry->job.run = nullptr;
  entry->account->close(entry->busy_ns);
  entry->done->complete(entry->outcome);
  lock.lock();
  ++n_ended_;
  place(lock, std::move(behind_.extract(entry->done.get()).mapped()));
  if (stopping_ && n_ended_ == n_added_) work_.notify_all(), watch_.notify_one();
}

/// Finds the waiting jobs that can begin, except those behind other jobs of the team: finish() places these.
void ThreadTeam::watch() {
  Lock lock(mutex_);
  while (true) {
    watch_.wait(lock, [this] { return !waiting_.empty() || (stopping_ && n_ended_ == n_added_); });
    if (waiting_.empty()) return;
    ask(lock);
    if (!waiting_.empty()) watch_.wait_for(lock, kAskEvery);
  }
}

/// Only the watcher takes jobs off waiting_.
void ThreadTeam::ask(Lock& lock) {
  std::vector<EntryPtr> asked(waiting_.begin(), waiting_.end());
  lock.unlock();
  std::vector<const EventState*> unreached;
  std::erase_if(asked, [&](const EntryPtr& entry) { return !entry->reached_beside(unreached); });
  for (const EntryPtr& entry : asked) entry->settle();
  lock.lock();
  for (EntryPtr& entry : asked) {
    std::erase(waiting_, entry);
    make_ready(std::move(entry));
  }
}

/// Ends the threads once all jobs have run.
void ThreadTeam::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  watch_.notify_one();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace

Result<std::unique_ptr<HostTeam>> make_host_team(unsigned n_threads, unsigned n_spared_cpus) {
  try {
    return std::unique_ptr<HostTeam>(std::make_unique<ThreadTeam>(n_threads, n_spared_cpus));
  } catch (const std::system_error& refused) {
    return limit_or_failure(refused);
  }
}

}  // namespace castor
