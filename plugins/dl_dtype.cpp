// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/dl_dtype.h>

#include <cstdint>
#include <string>

#include <castor/memory/bytes.h>
#include <castor/plugins/model_host.h>

namespace castor {
namespace {

std::uint32_t value_bits(DLDataType dtype) { return std::uint32_t{dtype.bits} * dtype.lanes; }

}  // namespace

Result<DType> kept_dtype(const castor_param_info& info) {
  const std::uint32_t bits = value_bits(info.dtype);
  if (is_opaque(info)) {
    if (bits > 0 && kTensorAlignBytes * 8 % bits == 0 && bits % 8 == 0) return DType::u8;
    return Error{ErrorKind::usage, std::string("parameter ") + info.name + " has values of " + std::to_string(bits) +
                                       " bits; pack them into bytes, in which opaque parameters are kept"};
  }
  if (info.dtype.code == kDLFloat && bits == 32) return DType::f32;
  if (info.dtype.code == kDLFloat && bits == 16) return DType::f16;
  if (info.dtype.code == kDLBfloat && bits == 16) return DType::bf16;
  return Error{ErrorKind::usage, std::string("parameter ") + info.name +
                                     " is neither fp32, bf16 nor fp16; one of another dtype has to be opaque"};
}

std::uint64_t value_bytes(DLDataType dtype) { return value_bits(dtype) / 8; }

MasterFormat master_format(const castor_param_info& info) {
  if (is_opaque(info)) return {CASTOR_OWN, value_bytes(info.dtype)};
  return {CASTOR_FP32, sizeof(float)};
}

}  // namespace castor
