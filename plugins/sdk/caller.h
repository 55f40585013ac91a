// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ordered_side.h"
#include "other_side.h"

namespace castor::sdk {

/// The interface `Calls` over table `T` of the other side: a derived class lists the functions (as_callers.inc).
template <typename Calls, typename T, template <typename> typename Side>
class Caller : public Calls {
 public:
  using Table = T;
  /// As those of the Side.
  template <typename... Order>
  Caller(const T* table, void* self, const ErrorSource& source, Order&... order)
      : other_(table, self, source, order...) {}

  bool is_there() const { return other_.is_there(); }

 protected:
  const Side<T> other_;
};

}  // namespace castor::sdk
