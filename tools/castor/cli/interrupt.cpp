// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <castor/memory/result.h>

namespace castor::cli {
namespace {

constexpr int kShellsBase = 128;

// A signal handler can access globals only; these are the program's only ones.
std::atomic<const StopSignal*> received{nullptr};
std::atomic<bool> has_work{false}, prints_json{false}, on_terminal{false};
std::atomic<std::int64_t> first_ns{0};  ///< when `received` was set
std::array<struct sigaction, kStopSignals.size()> earlier;

/// A launcher and the terminal may each pass on one Ctrl-C; a person takes longer for a second.
constexpr std::int64_t kOneCtrlCNs = 500'000'000;

static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler must not take a lock");
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "likewise");
static_assert(std::atomic<const StopSignal*>::is_always_lock_free, "likewise");

int code_of(const StopSignal& signal) { return kShellsBase + signal.number; }

const StopSignal* signal_of(int number) {
  for (const StopSignal& signal : kStopSignals)
    if (signal.number == number) return &signal;
  return nullptr;
}

/// A text put together without allocation.
struct Line {
  char text[256];
  std::size_t size = 0;

  Line& add(const char* part) {
    const std::size_t n = std::min(std::strlen(part), sizeof text - size);
    std::memcpy(text + size, part, n);
    size += n;
    return *this;
  }
  Line& add(int number) {
    const char digits[4] = {static_cast<char>('0' + number / 100), static_cast<char>('0' + number / 10 % 10),
                            static_cast<char>('0' + number % 10), '\0'};
    return add(digits);
  }
  void print(int fd) const { (void)!::write(fd, text, size); }
};

[[noreturn]] void end_without_work(const StopSignal& signal) {
  constexpr const char* kRest = " before the first step; there was nothing to save";
  Line().add("castor: stopped by ").add(signal.name).add(kRest).add("\n").print(STDERR_FILENO);
  if (prints_json)
    Line()
        .add("{\"error\":{\"code\":")
        .add(code_of(signal))
        .add(",\"kind\":\"interrupted\",\"message\":\"stopped by ")
        .add(signal.name)
        .add(kRest)
        .add("\"}}\n")
        .print(STDOUT_FILENO);
  _exit(code_of(signal));
}

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void on_signal(int number) {
  const StopSignal* const signal = signal_of(number);
  if (!has_work) end_without_work(*signal);
  const bool of_person = signal->rule == SignalRule::person;
  const StopSignal* first = nullptr;
  if (received.compare_exchange_strong(first, signal)) {
    first_ns = now_ns();
    constexpr const char* kText = "castor: stopping; a second Ctrl-C ends at once and saves nothing\n";
    if (of_person) Line().add(on_terminal ? "\n" : "").add(kText).print(STDERR_FILENO);
  } else if (of_person && now_ns() - first_ns > kOneCtrlCNs) {
    _exit(code_of(*signal));
  }
}

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

InterruptGuard::InterruptGuard(Work work, bool json) {
  received = nullptr;
  has_work = work == Work::started;
  prints_json = json;
  on_terminal = isatty(STDERR_FILENO) != 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i].number, nullptr, &earlier[i]);
    if (!is_ignored(earlier[i])) sigaction(kStopSignals[i].number, &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  if (received != nullptr) return;  // the process is about to end, and another signal changes no more of it than before
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i].number, &earlier[i], nullptr);
}

void InterruptGuard::work_started() { has_work = true; }

bool InterruptGuard::requested() { return received != nullptr; }

const StopSignal* stop_signal() { return received; }

int stopped_code() {
  const StopSignal* const signal = received;
  return signal == nullptr ? static_cast<int>(ErrorKind::interrupted) : code_of(*signal);
}

}  // namespace castor::cli
