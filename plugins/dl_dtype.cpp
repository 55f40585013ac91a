// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/dl_dtype.h>

#include <string>

namespace castor {

Result<DType> dtype_of(const castor_param_info& info) {
  if (info.dtype.code == kDLFloat && info.dtype.bits == 32) return DType::f32;
  if (info.dtype.code == kDLFloat && info.dtype.bits == 16) return DType::f16;
  if (info.dtype.code == kDLBfloat && info.dtype.bits == 16) return DType::bf16;
  return Error{ErrorKind::usage, std::string("parameter ") + info.name +
                                     " is neither fp32, bf16 nor fp16; the gemini plugin keeps no other dtype"};
}

DLDataType dl_dtype(DType dtype) {
  if (dtype == DType::f32) return {kDLFloat, 32, 1};
  return {static_cast<std::uint8_t>(dtype == DType::bf16 ? kDLBfloat : kDLFloat), 16, 1};
}

}  // namespace castor
