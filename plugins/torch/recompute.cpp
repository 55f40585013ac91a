// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/recompute.h>

#include <castor/plugins/torch/unit_border.h>
#include "tensor_keeper.h"

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

/// A function in the form that LibTorch's context can carry.
struct Held final : torch::CustomClassHolder {
  Held(Body fn, std::shared_ptr<TensorKeeper> with) : body(std::move(fn)), keeper(std::move(with)) {}
  const Body body;
  const std::shared_ptr<TensorKeeper> keeper;  ///< null: autograd keeps the input
  std::unique_ptr<KeptTensor> kept;            ///< the input, where the strategy has taken it
};

struct Recompute final : torch::autograd::Function<Recompute> {
  /// `anchor` requires a gradient, so that autograd calls backward even where x has none.
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& /*anchor*/,
                          const c10::intrusive_ptr<Held>& held) {
    if (held->keeper) held->kept = held->keeper->keep(x);
    if (!held->kept) context->save_for_backward({x});
    context->saved_data["body"] = c10::IValue::make_capsule(held);
    return held->body(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto held = c10::static_intrusive_pointer_cast<Held>(context->saved_data["body"].toCapsule());
    const Variable x = held->kept ? held->kept->recall() : context->get_saved_variables()[0];
    const Variable x_grad = differentiate(held->body, x, grads[0]);
    if (held->kept) held->kept->forget();
    return {x_grad, Variable(), Variable()};
  }

  /// The gradient of x where body(x) has the gradient `grad`; parameters accumulate theirs as usual.
  static Variable differentiate(const Body& body, const Variable& x, const Variable& grad) {
    const Variable leaf = x.detach().set_requires_grad(x.requires_grad());
    const at::AutoGradMode with_graph(true);
    torch::autograd::backward({body(leaf)}, {grad});
    return leaf.grad();
  }
};

}  // namespace

at::Tensor recompute(Body fn, const at::Tensor& x, const UnitBorder* within) {
  if (!at::GradMode::is_enabled()) return fn(x);
  const at::Tensor anchor = at::empty({0}, x.options().dtype(at::kFloat)).set_requires_grad(true);
  return Recompute::apply(x, anchor, c10::make_intrusive<Held>(std::move(fn), within ? within->keeper() : nullptr));
}

}  // namespace castor
