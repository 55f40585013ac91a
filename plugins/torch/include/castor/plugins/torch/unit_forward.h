// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/any_unit.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace castor {

template <typename M, typename... Args>
concept ComputesFrom = requires(M& module, Args&&... args) {
  module.forward(std::forward<Args>(args)...);
};

/// Whether M::forward(Args…) can also be called with all of them but the last.
template <typename M, typename... Args>
constexpr bool has_default_argument() {
  if constexpr (sizeof...(Args) == 0) {
    return false;
  } else {
    return []<std::size_t... i>(std::index_sequence<i...>) {
      return ComputesFrom<M, std::tuple_element_t<i, std::tuple<Args...>>...>;
    }
    (std::make_index_sequence<sizeof...(Args) - 1>());
  }
}

/// M, with its forward inside the border of a unit. This one is for modules without a forward, or with several, or with
/// default arguments.
template <typename M, typename Signature = void>
class UnitForward : public M, public AnyUnit {
 public:
  using M::M;

  template <typename... Args>
  requires ComputesFrom<M, Args...>
  auto forward(Args&&... args) {
    return run(std::tie(args...), [&](const auto&...) { return M::forward(std::forward<Args>(args)...); });
  }
};

/// Of one forward without default arguments the signature stays, so that the unit can be part of a
/// torch::nn::Sequential.
template <typename M, typename C, typename R, typename... Args>
requires(!has_default_argument<M, Args...>()) class UnitForward<M, R (C::*)(Args...)> : public M, public AnyUnit {
 public:
  using M::M;

  R forward(Args... args) {
    return run(std::tie(args...), [&](const auto&...) { return M::forward(std::forward<Args>(args)...); });
  }
};

template <typename M>
struct ForwardOf {
  using Signature = void;
};

template <typename M>
requires requires { &M::forward; }
struct ForwardOf<M> {
  using Signature = decltype(&M::forward);
};

}  // namespace castor
