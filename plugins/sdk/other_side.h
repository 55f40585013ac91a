// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include "crossing.h"

namespace castor::sdk {

/// Knows the errors of the side that a table belongs to.
class ErrorSource {
 public:
  /// As errors name it: "plugin gemini".
  virtual std::string name() const = 0;
  /// The error of `function`, which has just returned `status`.
  virtual Error error_of(castor_status status, const char* function) const = 0;

 protected:
  ~ErrorSource() = default;
};

/// One table of the other side: calls that return results. A status other than CASTOR_OK becomes the Error that the
/// other side left; a function that is not there, what its need says.
template <typename Table>
class OtherSide {
 public:
  /// Borrowed. `table` may be null: no function is there.
  OtherSide(const Table* table, void* self, const ErrorSource& source) : table_(table), self_(self), source_(source) {}

  bool is_there() const { return table_ != nullptr; }
  template <typename Function>
  bool has(Function Table::*function) const {
    if (table_ == nullptr) return false;
    const auto* const field = &(table_->*function);
    const auto end = reinterpret_cast<const char*>(field + 1) - reinterpret_cast<const char*>(table_);
    return static_cast<std::size_t>(end) <= table_->struct_size && *field != nullptr;
  }

  template <typename... C, typename... A>
  Result<void> call(castor_status (*Table::*function)(void*, C...), const CallNeed& need, const char* name,
                    A&... args) const {
    if (!has(function)) return absent(source_.name(), need, name);
    const castor_status status = (table_->*function)(self_, to_c<C>(args)...);
    return status == CASTOR_OK ? Result<void>() : source_.error_of(status, name);
  }

  template <typename T, typename... C, typename... A>
  Result<T> get(castor_status (*Table::*function)(void*, C...), const CallNeed& need, const char* name,
                A&... args) const {
    T out = blank<T>();
    T* const into = &out;
    CASTOR_TRY(call(function, need, name, args..., into));
    return out;
  }

  /// Requires: has(function).
  template <typename R, typename... C, typename... A>
  R value(R (*Table::*function)(void*, C...), A&... args) const {
    return (table_->*function)(self_, to_c<C>(args)...);
  }

 private:
  const Table* const table_;
  void* const self_;
  const ErrorSource& source_;
};

}  // namespace castor::sdk
