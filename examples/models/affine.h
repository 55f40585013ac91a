// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace castor {

/// x·Wᵀ + b of x [..., in], W [out, in] and an optional b [out]: [..., out], all of one dtype.
///
/// Like at::linear. But if x has 16 bits and the CPU lacks the instructions, LibTorch takes 7 to 50 times as long as in
/// fp32 (2.13 with AVX2: 8.1 s for a step that takes 0.33), so `widened_affine` does the work.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

/// The same in fp32: operands are widened for one product at a time and each result is rounded once, so the tensors
/// kept for backward have 16 bits.
at::Tensor widened_affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace castor
