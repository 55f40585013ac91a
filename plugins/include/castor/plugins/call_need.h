// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <type_traits>

#include <castor/memory/result.h>
#include <castor/plugins/call_state.h>

namespace castor {

/// Whether a side of the plugin border may lack a function, the meaning of its absence, and the states of a strategy in
/// which it may be called. The lists in castor/plugins/abi/ name all of it for each function.
struct CallNeed {
  enum class Kind {
    required,  ///< the side is refused without it
    optional,  ///< there is nothing to do
    with,      ///< required where function `text` is there
    feature,   ///< the side "cannot `text`"
  };
  Kind kind = Kind::required;
  const char* text = "";
  CallStates states = during::any;
  CallEffect effect = CallEffect::none;

  constexpr CallNeed when(CallStates allowed, CallEffect then = CallEffect::none) const {
    return {kind, text, allowed, then};
  }
};

#define CASTOR_REQUIRED (::castor::CallNeed{::castor::CallNeed::Kind::required, ""})
#define CASTOR_OPTIONAL (::castor::CallNeed{::castor::CallNeed::Kind::optional, ""})
#define CASTOR_WITH(name) (::castor::CallNeed{::castor::CallNeed::Kind::with, #name})
#define CASTOR_FEATURE(text) (::castor::CallNeed{::castor::CallNeed::Kind::feature, text})

/// A struct of the border.
template <typename T>
concept Sized = requires(T& value) {
  value.struct_size;
};

/// A T of zeros that knows its size.
template <typename T>
T blank() {
  T value{};
  if constexpr (Sized<T>) value.struct_size = sizeof value;
  return value;
}

/// The outcome of calling a function that `side` ("plugin x", "this strategy") lacks: success where there is nothing to
/// do. Errors: usage.
Result<void> absent(const std::string& side, const CallNeed& need, const char* function);

/// The default of a function in an interface; takes and ignores its arguments.
template <typename T, typename... Args>
Result<T> by_default(const CallNeed& need, const char* function, const Args&...) {
  auto outcome = absent("this strategy", need, function);
  if constexpr (std::is_void_v<T>) {
    return outcome;
  } else {
    return outcome.ok() ? Result<T>(blank<T>()) : Result<T>(outcome.error());
  }
}

template <typename T, typename... Args>
T nothing(const Args&...) {
  return T();
}

}  // namespace castor
