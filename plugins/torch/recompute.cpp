// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/recompute.h>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace castor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using Body = std::function<at::Tensor(const at::Tensor&)>;

/// What LibTorch's context can carry of a function.
struct Held final : torch::CustomClassHolder {
  explicit Held(Body fn) : body(std::move(fn)) {}
  Body body;
};

struct Recompute final : torch::autograd::Function<Recompute> {
  /// `anchor` requires a gradient, so that backward comes here even where x has none.
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& /*anchor*/,
                          const c10::intrusive_ptr<Held>& held) {
    context->save_for_backward({x});
    context->saved_data["body"] = c10::IValue::make_capsule(held);
    return held->body(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const Variable x = context->get_saved_variables()[0];
    const auto held = c10::static_intrusive_pointer_cast<Held>(context->saved_data["body"].toCapsule());
    const Variable leaf = x.detach().set_requires_grad(x.requires_grad());
    const at::AutoGradMode with_graph(true);
    torch::autograd::backward({held->body(leaf)}, {grads[0]});
    return {leaf.grad(), Variable(), Variable()};
  }
};

}  // namespace

at::Tensor recompute(Body fn, const at::Tensor& x) {
  if (!at::GradMode::is_enabled()) return fn(x);
  const at::Tensor anchor = at::empty({0}, x.options().dtype(at::kFloat)).set_requires_grad(true);
  return Recompute::apply(x, anchor, c10::make_intrusive<Held>(std::move(fn)));
}

}  // namespace castor
