// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/team.h"

#include <atomic>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace castor::bench {

Result<std::unique_ptr<Team>> Team::hire(unsigned n_threads) {
  std::unique_ptr<Team> team(new Team);
  try {
    while (team->n_threads() < n_threads) team->workers_.emplace_back();
  } catch (const std::system_error& refused) {
    return Error{ErrorKind::failed, "--threads " + std::to_string(n_threads) + ": the system refused one (" +
                                        refused.what() + "); ask for fewer"};
  }
  return team;
}

Result<void> Team::run(std::uint64_t n_parts, const Part& part) {
  std::atomic<std::uint64_t> next = 0;
  const auto work = [&]() -> Result<void> {
    for (std::uint64_t i = next++; i < n_parts; i = next++) CASTOR_TRY(part(i));
    return {};
  };
  std::vector<Event> ends;
  for (WorkerThread& worker : workers_) ends.push_back(worker.run(work));
  Result<void> outcome = work();
  for (const Event& end : ends)  // wait for all, because they use the locals of this function
    if (auto ended = end.wait(); outcome.ok()) outcome = std::move(ended);
  return outcome;
}

}  // namespace castor::bench
