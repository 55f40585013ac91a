// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include <pybind11/pybind11.h>

#include <utility>

namespace castor::python {

/// From now on an Error that a binding throws is raised as castor.Error.
void translate_errors();

/// Throws `exception` as a castor.Error that autograd carries through a backward pass and raises whole.
[[noreturn]] void raise(const ErrorException& exception);

/// The value of `result`; throws ErrorException, which Python sees as castor.Error.
template <typename T>
T value_of(Result<T> result) {
  return std::move(result).value();
}
inline void value_of(const Result<void>& result) { result.value(); }

}  // namespace castor::python
