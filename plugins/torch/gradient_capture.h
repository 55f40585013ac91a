// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/plugins/abi.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace castor {

/// Receives captured gradients.
using GradientSink = std::function<void(std::uint32_t param, const at::Tensor& grad)>;

/// Sends each gradient that autograd finishes for `parameter` to `sink` at once from now on; `parameter.grad()` stays
/// undefined. A hook that the parameter had runs before, and may
/// change the gradient or take it away.
///
/// A tied parameter is sent once, with the sum; twice where one of its uses is recomputed.
void capture_gradient(const at::Tensor& parameter, std::uint32_t id, GradientSink sink);
/// The parameter has its own hook again.
void stop_capture(const at::Tensor& parameter);
/// False once the user has set another hook in place of the one that captures.
bool is_captured(const at::Tensor& parameter);

/// `grad` with the strides of `parameter`, in one piece: its elements are in the order of the parameter's storage, in
/// which weights, states and norms are kept too.
at::Tensor ordered_as(const at::Tensor& grad, const at::Tensor& parameter);
/// `grad` for a strategy, which owns it: of the parameter's dtype, and as ordered_as gives it. A tensor on meta is a shape
/// without memory.
DLManagedTensor* handed_over(const at::Tensor& grad, const at::Tensor& parameter);

}  // namespace castor
