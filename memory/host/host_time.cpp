// SPDX-License-Identifier: Apache-2.0
#include "host_time.h"

namespace castor {

/// Ignores the outcome: a stream that has failed has a time as well.
std::uint64_t HostTime::ns() const {
  (void)reached_.wait();
  return *ns_;
}

Result<double> HostTime::seconds_since(const StreamTime& earlier) const {
  const auto* begin = dynamic_cast<const HostTime*>(&earlier);
  if (!begin) throw ContractViolation("HostTime: compared with the time of another kind of stream");
  return (static_cast<double>(ns()) - static_cast<double>(begin->ns())) * 1e-9;
}

}  // namespace castor
