// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <castor/plugins/call_need.h>

namespace castor::sdk {

/// The C form of a parameter of a C++ function: a pointer for a reference, everything else as it is.
template <typename T>
struct Crossed {
  using Type = T;
};
template <typename T>
struct Crossed<T&> {
  using Type = T*;
};
template <typename T>
using CrossedType = typename Crossed<T>::Type;

/// `argument` as it is handed to a C function whose parameter is a `C`.
template <typename C, typename A>
C to_c(A& argument) {
  if constexpr (std::is_pointer_v<C> && !std::is_pointer_v<A>) {
    return &argument;
  } else {
    return argument;
  }
}

/// A copy of `given` in which the fields beyond its struct_size, which its author did not know, are 0.
template <Sized T>
T known(const T& given) {
  T copy{};
  std::memcpy(static_cast<void*>(&copy), &given, std::min<std::size_t>(given.struct_size, sizeof copy));
  return copy;
}

/// The C++ argument for parameter type P that a C function got as `argument`.
template <typename P>
decltype(auto) to_cxx(CrossedType<P> argument) {
  using Value = std::remove_cvref_t<P>;
  if constexpr (std::is_same_v<P, const Value&> && Sized<Value>) {
    return known(*argument);
  } else if constexpr (std::is_reference_v<P>) {
    return static_cast<P>(*argument);
  } else {
    return argument;
  }
}

/// Fills `out` from `value`, no further than its struct_size, which stays.
template <typename T>
void store(T& out, T value) {
  if constexpr (Sized<T>) {
    const auto n_bytes = std::min<std::size_t>(out.struct_size, sizeof value);
    value.struct_size = out.struct_size;
    std::memcpy(static_cast<void*>(&out), &value, n_bytes);
  } else {
    out = value;
  }
}

}  // namespace castor::sdk
