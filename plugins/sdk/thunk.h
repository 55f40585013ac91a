// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include "crossing.h"

namespace castor::sdk {

/// The C function `call` of a table whose `self` is a Side: runs a method of an interface that the side has.
///
/// A Side has `part<Calls>()`, which returns the interface, and `guarded(body)`, which runs a body that returns a
/// Result, leaves its error with the host and returns the status.
template <typename Side, auto Method, typename Function = decltype(Method)>
struct Thunk;

template <typename Side, auto Method, typename Calls, typename... P>
struct Thunk<Side, Method, Result<void> (Calls::*)(P...)> {
  static castor_status call(void* self, CrossedType<P>... args) {
    Side& side = *static_cast<Side*>(self);
    return side.guarded([&] { return (side.template part<Calls>().*Method)(to_cxx<P>(args)...); });
  }
};

template <typename Side, auto Method, typename Calls, typename T, typename... P>
struct Thunk<Side, Method, Result<T> (Calls::*)(P...)> {
  static castor_status call(void* self, CrossedType<P>... args, T* out) {
    Side& side = *static_cast<Side*>(self);
    return side.guarded([&]() -> Result<void> {
      CASTOR_ASSIGN(T value, (side.template part<Calls>().*Method)(to_cxx<P>(args)...));
      store(*out, std::move(value));
      return {};
    });
  }
};

/// A function that cannot fail: an exception ends the process.
template <typename Side, auto Method, typename Calls, typename R, typename... P>
struct Thunk<Side, Method, R (Calls::*)(P...)> {
  static R call(void* self, CrossedType<P>... args) noexcept {
    return (static_cast<Side*>(self)->template part<Calls>().*Method)(to_cxx<P>(args)...);
  }
};

}  // namespace castor::sdk
