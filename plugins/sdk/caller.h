// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "other_side.h"

namespace castor::sdk {

/// The interface `Calls` over table `T` of the other side: a derived class lists the functions (as_callers.inc).
template <typename Calls, typename T>
class Caller : public Calls {
 public:
  using Table = T;
  /// Borrowed. `table` may be null: there is no such table.
  Caller(const T* table, void* self, const ErrorSource& source) : other_(table, self, source) {}

  bool is_there() const { return other_.is_there(); }

 protected:
  const OtherSide<T> other_;
};

}  // namespace castor::sdk
