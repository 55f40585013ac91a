// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include <type_traits>
#include <utility>

namespace castor {

/// The Error for the exception in flight. Call it inside a catch block only.
///
/// ErrorException gives its own Error (a hook's failure is returned unchanged); LibTorch's out-of-memory error and
/// std::bad_alloc become does_not_fit, with the bytes that the device allocator holds; any other exception becomes
/// failed, with the first line of its message.
Error current_error();

/// Runs `fn` and returns its value, or the Error for the exception that it threw. For calls into a model, which report
/// through exceptions:
/// `auto loss = guard([&] { return model->loss(batch); });`
template <typename Fn>
auto guard(Fn&& fn) -> Result<std::invoke_result_t<Fn>> {
  using Value = std::invoke_result_t<Fn>;
  try {
    if constexpr (std::is_void_v<Value>) {
      std::forward<Fn>(fn)();
      return Result<Value>();
    } else {
      return Result<Value>(std::forward<Fn>(fn)());
    }
  } catch (...) {
    return current_error();
  }
}

}  // namespace castor
