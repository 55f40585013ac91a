// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include <castor/memory/result.h>

namespace castor::cli {
namespace {

constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};

// A signal handler can access globals only; these are the program's only ones.
std::atomic<bool> stop_requested{false};
std::array<struct sigaction, kSignals.size()> earlier;

static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler must not take a lock");

void on_signal(int) {
  if (stop_requested.exchange(true)) _exit(static_cast<int>(ErrorKind::interrupted));
}

}  // namespace

InterruptGuard::InterruptGuard() {
  stop_requested = false;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &earlier[i]);
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &earlier[i], nullptr);
}

bool InterruptGuard::requested() { return stop_requested; }

}  // namespace castor::cli
