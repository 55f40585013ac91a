// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/call_need.h>

namespace castor {

Result<void> absent(const std::string& side, const CallNeed& need, const char* function) {
  if (need.kind == CallNeed::Kind::optional) return {};
  if (need.kind == CallNeed::Kind::feature) return Error{ErrorKind::usage, side + " cannot " + need.text};
  return Error{ErrorKind::usage, side + " has no function " + function};
}

}  // namespace castor
