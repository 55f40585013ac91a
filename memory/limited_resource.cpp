// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/limited_resource.h>

#include <string>

#include <castor/memory/bytes.h>

namespace castor {

Result<void*> LimitedResource::allocate(std::uint64_t n_bytes) {
  if (!budget_.try_reserve(n_bytes))
    return Error{ErrorKind::does_not_fit, std::string(name(budget_.tier())) + " tier: " + format_bytes(n_bytes) +
                                              " asked for, " + format_bytes(budget_.free_bytes()) + " free under the " +
                                              format_bytes(budget_.limit_bytes()) + " budget"};
  auto data = upstream_.allocate(n_bytes);
  if (!data.ok()) budget_.release(n_bytes);
  return data;
}

void LimitedResource::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  upstream_.deallocate(data, n_bytes);
  budget_.release(n_bytes);
}

}  // namespace castor
