// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/dtype.h>
#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

namespace castor {

/// The dtype of a parameter's elements. Errors: usage, for one that is neither fp32, bf16 nor fp16.
Result<DType> dtype_of(const castor_param_info& info);
/// The reverse.
DLDataType dl_dtype(DType dtype);

}  // namespace castor
