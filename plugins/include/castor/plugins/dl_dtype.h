// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/dtype.h>
#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

namespace castor {

/// The dtype in which a parameter is kept: its own, DType::u8 of an opaque one. Errors: usage, for one that is neither
/// opaque, fp32, bf16 nor fp16, and for an opaque one whose values are not 1, 2, 4, … bytes.
Result<DType> kept_dtype(const castor_param_info& info);
constexpr bool is_fp16(DLDataType dtype) { return dtype.code == kDLFloat && dtype.bits == 16; }
/// Bytes of one value, which has whole bytes.
std::uint64_t value_bytes(DLDataType dtype);

/// How the masters of a parameter cross the border: its form in castor_values, and the bytes of a value.
struct MasterFormat {
  std::uint32_t form;
  std::uint64_t value_bytes;
};
/// fp32, or the dtype of an opaque parameter.
MasterFormat master_format(const castor_param_info& info);

}  // namespace castor
