// SPDX-License-Identifier: Apache-2.0
#include "uring/errands.h"

#include <future>

namespace castor {

void Errands::add_and_wait(const std::function<void()>& errand, const std::function<void()>& wake) {
  std::promise<void> done;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back([&] {
      errand();
      done.set_value();
    });
  }
  wake();
  done.get_future().wait();
}

void Errands::run_all() {
  std::vector<std::function<void()>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(waiting_);
  }
  for (const auto& errand : taken) errand();
}

}  // namespace castor
