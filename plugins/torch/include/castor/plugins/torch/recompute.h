// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace castor {

class UnitBorder;

/// Computes `fn(x)` without keeping the tensors that autograd would save inside it; backward runs `fn` again and
/// differentiates that. Costs one more forward of `fn`, saves its activations.
///
/// The result and all gradients have the same bits as those of `fn(x)` where `fn` repeats its own. `fn` must not draw
/// random numbers (no model of Castor's has dropout): the random state is not restored. Units inside call their hooks
/// again when they run again. Without grad mode this is `fn(x)`.
///
/// `within` is a unit that `fn` runs: where one is named and a strategy is connected, that strategy may keep a copy of
/// x until backward, on or off the device; backward then passes through this part once at most.
/// Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016.
at::Tensor recompute(std::function<at::Tensor(const at::Tensor&)> fn, const at::Tensor& x,
                     const UnitBorder* within = nullptr);

}  // namespace castor
