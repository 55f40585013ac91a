// SPDX-License-Identifier: Apache-2.0
#include "cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace castor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Elements of the fp32 working copies, 32 MiB each.
constexpr std::int64_t kElementsAtOnce = 8 * 1024 * 1024;

/// Calls `fn(first row, rows)` over all rows.
template <typename Fn>
void for_each_slice(const at::Tensor& logits, const Fn& fn) {
  const std::int64_t n = logits.size(0);
  const std::int64_t most = std::max<std::int64_t>(1, kElementsAtOnce / logits.size(1));
  for (std::int64_t row = 0; row < n; row += most) fn(row, std::min(most, n - row));
}

struct CrossEntropy final : torch::autograd::Function<CrossEntropy> {
  static Variable forward(AutogradContext* context, const Variable& logits, const Variable& target) {
    const at::Tensor log_sums = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    const at::Tensor losses = at::empty_like(log_sums);
    for_each_slice(logits, [&](std::int64_t row, std::int64_t n) {
      const at::Tensor slice = logits.narrow(0, row, n).to(at::kFloat);
      const at::Tensor log_sum = slice.logsumexp(1);
      losses.narrow(0, row, n).copy_(log_sum - slice.gather(1, target.narrow(0, row, n).unsqueeze(1)).squeeze(1));
      log_sums.narrow(0, row, n).copy_(log_sum);
    });
    context->save_for_backward({logits, target, log_sums});
    return losses.mean();
  }

  /// d loss / d logit = (softmax − one-hot) / n, times the gradient of the loss.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &logits = saved[0], &target = saved[1], &log_sums = saved[2];
    const at::Tensor grad = at::empty_like(logits);
    const at::Tensor classes = at::arange(logits.size(1), target.options());
    const at::Tensor scale = grads[0] / static_cast<double>(logits.size(0));
    for_each_slice(logits, [&](std::int64_t row, std::int64_t n) {
      at::Tensor slice = logits.narrow(0, row, n).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      slice.sub_(log_sums.narrow(0, row, n).unsqueeze(1)).exp_();
      slice.sub_(classes.eq(target.narrow(0, row, n).unsqueeze(1))
                     .to(at::kFloat));  // not scatter_, which on a GPU does not repeat its bits at full speed
      grad.narrow(0, row, n).copy_(slice.mul_(scale));
    });
    return {grad, Variable()};
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target) {
  return CrossEntropy::apply(logits, target);
}

}  // namespace castor
