// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace castor {

template <typename T>
concept TupleLike = requires {
  std::tuple_size<std::remove_cvref_t<T>>::value;
};

template <typename T>
concept OptionalLike = requires(T& value) {
  value.has_value();
  *value;
};

template <typename T>
concept ListLike = !std::is_convertible_v<T, std::string_view> && requires(T & value) {
  value.begin();
  value.end();
};

/// Whether values of type T may hold tensors as for_each_tensor finds them.
template <typename T>
constexpr bool holds_tensors() {
  using Value = std::remove_cvref_t<T>;
  if constexpr (std::is_base_of_v<at::Tensor, Value>) {
    return true;
  } else if constexpr (TupleLike<Value>) {
    return []<typename... Items>(std::type_identity<std::tuple<Items...>>) {
      return (holds_tensors<Items>() || ...);
    }(std::type_identity<decltype(std::tuple_cat(std::declval<Value>()))>());
  } else if constexpr (OptionalLike<Value>) {
    return holds_tensors<decltype(*std::declval<Value&>())>();
  } else if constexpr (ListLike<Value>) {
    return holds_tensors<decltype(*std::declval<Value&>().begin())>();
  } else {
    return false;
  }
}

/// Calls `fn` for each tensor in `value`: a tensor, or an optional, list, pair or tuple that holds tensors, however
/// they are nested. Values of other types hold none.
template <typename T, typename Fn>
void for_each_tensor(T& value, const Fn& fn) {
  if constexpr (std::is_base_of_v<at::Tensor, std::remove_const_t<T>>) {
    fn(value);
  } else if constexpr (TupleLike<T>) {
    std::apply([&](auto&... items) { (for_each_tensor(items, fn), ...); }, value);
  } else if constexpr (OptionalLike<T>) {
    if (value.has_value()) for_each_tensor(*value, fn);
  } else if constexpr (ListLike<T>) {
    for (auto& item : value) for_each_tensor(item, fn);
  }
}

}  // namespace castor
