// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/chunk/link_bytes.h>
#include <castor/plan/link_costs.h>
#include <castor/plan/places.h>

namespace castor {

/// `n_bytes` for each link of `taken`.
LinkBytes bytes_over(const Hops& taken, std::uint64_t n_bytes);

/// The time that each link takes for `moved`.
LinkSeconds seconds_of(const LinkBytes& moved, const LinkCosts& costs);

/// The total, as if the links worked one after the other.
double sum(const LinkSeconds& seconds);

}  // namespace castor
