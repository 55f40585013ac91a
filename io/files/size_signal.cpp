// SPDX-License-Identifier: Apache-2.0
#include "size_signal.h"

#include <ctime>

namespace castor {
namespace {

sigset_t size_signal() {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

SizeSignalBlock::SizeSignalBlock() {
  const auto set = size_signal();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SizeSignalBlock::~SizeSignalBlock() {
  if (sigismember(&before_, SIGXFSZ) == 1) return;
  const auto set = size_signal();
  const timespec at_once{};
  sigtimedwait(&set, nullptr, &at_once);  // the kernel sends it to the thread of the call, so it can only be ours
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace castor
