// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/moment_format.h>

namespace castor {
namespace {

constexpr MomentFormat kAllMoments[] = {MomentFormat::f32, MomentFormat::mixed, MomentFormat::bf16};

}  // namespace

std::string name(MomentFormat moments) {
  switch (moments) {
    case MomentFormat::f32: return "fp32";
    case MomentFormat::mixed: return "mixed";
    case MomentFormat::bf16: return "bf16";
  }
  throw ContractViolation("moments of kind " + std::to_string(static_cast<int>(moments)));
}

Result<MomentFormat> parse_moment_format(const std::string& text) {
  for (const MomentFormat moments : kAllMoments)
    if (text == name(moments)) return moments;
  return Error{ErrorKind::usage, "moments are fp32, mixed or bf16, not '" + text + "'"};
}

}  // namespace castor
