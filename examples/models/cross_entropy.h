// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace castor {

/// The mean cross entropy of `logits` [n, classes], of any floating dtype, against `target` int64 [n], each in [0,
/// classes): an fp32 scalar.
///
/// Computes in fp32, a few rows at a time, so that beside the logits only their gradient is ever complete: 4 bytes per
/// logit in bf16, where log_softmax in fp32 and its gradient hold 16.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target);

}  // namespace castor
