// SPDX-License-Identifier: Apache-2.0
#include "quiet_thread.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace castor {

std::thread start_quiet_thread(const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a new thread inherits the mask of its creator
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace castor
