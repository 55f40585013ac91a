// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/quiet_thread.h>

#include <pthread.h>

#include <csignal>
#include <utility>

namespace castor {

namespace {

/// Blocks the signals of the calling thread as long as it lives; a new thread inherits the mask of its creator. A fault
/// of the thread itself stays open to the program's handlers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_quiet_thread(const char* name, std::function<void()> body) {
  const SignalsBlocked while_it_starts;
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace castor
