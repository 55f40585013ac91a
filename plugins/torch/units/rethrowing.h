// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include <functional>

namespace castor {

/// `fn()`, whose errors `rethrow` throws in another form; where that is empty, they pass as they are.
template <typename Fn>
void rethrowing(const std::function<void(const ErrorException&)>& rethrow, const Fn& fn) {
  try {
    fn();
  } catch (const ErrorException& error) {
    if (rethrow) rethrow(error);
    throw;
  }
}

}  // namespace castor
