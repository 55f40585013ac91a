// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/plugins/abi.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace castor {

/// Receives captured gradients; owns each of them, also when it throws.
using GradientSink = std::function<void(std::uint32_t param, DLManagedTensor* grad)>;

/// Sends each gradient that autograd finishes for `parameter` to `sink` at once from now on, contiguous and of the
/// parameter's dtype; `parameter.grad()` stays undefined.
///
/// A tied parameter is sent once, with the sum; twice where one of its uses is recomputed.
void capture_gradient(const at::Tensor& parameter, std::uint32_t id, GradientSink sink);
void stop_capture(const at::Tensor& parameter);

}  // namespace castor
