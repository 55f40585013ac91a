// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include <castor/memory/tier.h>

namespace castor {

/// Kinds of errors, told apart by how a caller can react. The numbers are the exit codes of the `castor` command and
/// the status values of the plugin ABI, so that an error keeps its meaning across both borders.
enum class ErrorKind : int {
  failed = 1,         ///< anything that has no kind of its own
  usage = 2,          ///< the request itself is wrong: an unknown name, a value out of range
  does_not_fit = 3,   ///< a tier's budget is smaller than the need
  io = 4,             ///< a file, a folder or a drive failed
  plugin = 5,         ///< a plugin was refused or broke its contract
  interrupted = 130,  ///< the user asked to stop
};

/// The name of `kind` in JSON: `failed`, `usage`, `does_not_fit`, `io`, `plugin`, `interrupted`.
const char* name(ErrorKind kind);

/// Room that a tier lacked: of a budget, the budget that would do as far as is known, and the one that there is; of a
/// machine, the bytes asked for (0: not known) and those that it has free.
struct Shortage {
  Tier tier = Tier::device;
  std::uint64_t needed_bytes = 0, available_bytes = 0;
};

/// An error the caller can act on. `message` is one sentence: the request, its numbers, the state it met, the remedy.
/// The other fields say the same to a program, for front ends that word the remedy themselves.
struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string message;
  std::string option = {};  ///< the option to change, by its name in a plugin's schema
  std::optional<Shortage> shortage = {};
};

/// Thrown where a caller broke a documented requirement (an illegal state transition, an impossible size). Never thrown
/// for input from outside: that is an Error.
class ContractViolation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// An Error on its way through code that has no return channel of its own (autograd hooks, C++ callers that prefer
/// exceptions).
class ErrorException : public std::runtime_error {
 public:
  explicit ErrorException(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// A value of type T, or the Error that kept it from being made.
///
/// `value()` on an error throws ErrorException; test with `ok()` or use CASTOR_TRY to hand the error on.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return check(), std::get<0>(state_); }
  const T& value() const& { return check(), std::get<0>(state_); }
  T&& value() && { return check(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// Requires: !ok() (ContractViolation).
  const Error& error() const {
    if (ok()) throw ContractViolation("the error of a result that has none");
    return std::get<1>(state_);
  }

 private:
  void check() const {
    if (!ok()) throw ErrorException(error());
  }
  std::variant<T, Error> state_;
};

/// Success, or the Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  /// Throws ErrorException on an error.
  void value() const {
    if (error_) throw ErrorException(*error_);
  }
  /// Requires: !ok() (ContractViolation).
  const Error& error() const {
    if (ok()) throw ContractViolation("the error of a result that has none");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace castor

#define CASTOR_CONCAT_(a, b) a##b
#define CASTOR_CONCAT(a, b) CASTOR_CONCAT_(a, b)

/// `CASTOR_TRY(expr);` returns the Error of a Result<void> from the enclosing function.
#define CASTOR_TRY(...)                                                                                    \
  do {                                                                                                     \
    if (auto castor_try_result = (__VA_ARGS__); !castor_try_result.ok()) return castor_try_result.error(); \
  } while (false)

/// `CASTOR_ASSIGN(auto x, expr);` binds the value of a Result, or returns its Error from the enclosing function.
#define CASTOR_ASSIGN(declaration, ...)                                                                      \
  auto CASTOR_CONCAT(castor_result_, __LINE__) = (__VA_ARGS__);                                              \
  if (!CASTOR_CONCAT(castor_result_, __LINE__).ok()) return CASTOR_CONCAT(castor_result_, __LINE__).error(); \
  declaration = std::move(CASTOR_CONCAT(castor_result_, __LINE__)).value()
