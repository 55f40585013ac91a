// SPDX-License-Identifier: Apache-2.0
#include "affine.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace castor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

struct WidenedAffine final : torch::autograd::Function<WidenedAffine> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["biased"] = bias.has_value();
    return at::linear(wide(x), wide(weight), bias ? wide(*bias) : bias).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], grad = wide(grads[0]).flatten(0, -2);
    variable_list out(3);
    if (context->needs_input_grad(0)) out[0] = at::mm(grad, wide(weight)).to(x.scalar_type()).view(x.sizes());
    if (context->needs_input_grad(1)) out[1] = at::mm(grad.t(), wide(x).flatten(0, -2)).to(x.scalar_type());
    const bool biased = context->saved_data["biased"].toBool();
    if (biased && context->needs_input_grad(2)) out[2] = grad.sum(0).to(x.scalar_type());
    return out;
  }
};

/// LibTorch multiplies 16-bit matrices through oneDNN, which on x86 needs AVX-512 for that.
bool cpu_multiplies_16_bits() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bw") != 0;
#else
  return true;
#endif
}

}  // namespace

at::Tensor widened_affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return WidenedAffine::apply(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  static const bool native = cpu_multiplies_16_bits();
  const bool widened = !native && x.is_cpu() && x.element_size() == 2;
  return widened ? widened_affine(x, weight, bias) : at::linear(x, weight, bias);
}

}  // namespace castor
