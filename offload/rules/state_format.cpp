// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/state_format.h>

namespace castor {
namespace {

constexpr AdamMoments kAllMoments[] = {AdamMoments::f32, AdamMoments::mixed, AdamMoments::bf16};

}  // namespace

std::string name(AdamMoments moments) {
  switch (moments) {
    case AdamMoments::f32: return "fp32";
    case AdamMoments::mixed: return "mixed";
    case AdamMoments::bf16: return "bf16";
  }
  throw ContractViolation("moments of kind " + std::to_string(static_cast<int>(moments)));
}

Result<AdamMoments> parse_adam_moments(const std::string& text) {
  for (const AdamMoments moments : kAllMoments)
    if (text == name(moments)) return moments;
  return Error{ErrorKind::usage, "moments are fp32, mixed or bf16, not '" + text + "'"};
}

}  // namespace castor
