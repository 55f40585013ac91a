// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

namespace castor::cli {

/// What a signal does to a command that may have something to save.
enum class SignalRule : std::uint8_t {
  person,  ///< a second one ends the process at once: somebody is waiting
  system,  ///< repeated ones change nothing: launchers and batch systems send several, the last of them SIGKILL
};

struct StopSignal {
  int number;
  const char* name;
  SignalRule rule;
};

/// The signals that ask a command to stop. One that the caller has set to be ignored (nohup, a shell's background job)
/// stays ignored.
inline constexpr std::array<StopSignal, 6> kStopSignals = {{
    {SIGINT, "Ctrl-C", SignalRule::person},
    {SIGTERM, "SIGTERM", SignalRule::system},
    {SIGHUP, "SIGHUP", SignalRule::system},
    {SIGUSR1, "SIGUSR1", SignalRule::system},
    {SIGUSR2, "SIGUSR2", SignalRule::system},
    {SIGXCPU, "SIGXCPU", SignalRule::system},
}};

/// Turns the signals that ask to stop into a request, which the work checks at its next unit.
///
/// One at a time: the destructor restores the earlier handlers, unless the process was asked to stop. The files that
/// hold a run's states are unnamed, so even an immediate exit leaves none behind.
class InterruptGuard {
 public:
  /// What a request meets.
  enum class Work : std::uint8_t {
    none,     ///< nothing to save yet: the process ends at once and says so, on stdout too where it is to print JSON
    started,  ///< it is saved first
  };

  explicit InterruptGuard(Work work = Work::started, bool json = false);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// From now on there is something to save.
  static void work_started();
  /// True once the process was asked to stop. Threads: any.
  static bool requested();
};

/// The signal that asked this process to stop; null where none has.
const StopSignal* stop_signal();

/// The exit code of a command that stopped when it was asked to: 128 and the signal's number, as shells count.
int stopped_code();

}  // namespace castor::cli
