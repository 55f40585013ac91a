// SPDX-License-Identifier: Apache-2.0
#include "quiet_thread.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace castor {

namespace {

/// Blocks all signals of the calling thread as long as it lives; a new thread inherits the mask of its creator.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_quiet_thread(const char* name, std::function<void()> body) {
  const AllSignalsBlocked while_it_starts;
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace castor
