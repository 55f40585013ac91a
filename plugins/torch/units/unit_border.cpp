// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/unit_border.h>

#include "unit_hooks.h"
#include "unit_uses.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <vector>

namespace castor {
namespace {

using torch::autograd::variable_list;
/// LibTorch 2.11 counts the owners of a node in a std::shared_ptr, 2.13 in the node.
using NodePtr = std::decay_t<decltype(std::declval<at::Tensor>().grad_fn())>;

/// Calls `fn` when all gradients of a node's results are there, before the node runs.
template <typename Fn>
class BeforeNode final : public torch::autograd::FunctionPreHook {
 public:
  explicit BeforeNode(Fn fn) : fn_(std::move(fn)) {}
  variable_list operator()(const variable_list& grads) override {
    fn_();
    return grads;
  }

 private:
  const Fn fn_;
};

template <typename Fn>
void before(const NodePtr& node, Fn fn) {
  node->add_tensor_pre_hook(std::make_unique<BeforeNode<Fn>>(std::move(fn)));
}

/// Calls `fn` with the node that has made x, and with that of the tensor that x is a view of: a later change of x in
/// place leads backward past the first.
template <typename Fn>
void for_each_maker(const at::Tensor& x, const Fn& fn) {
  if (const NodePtr& node = x.grad_fn()) fn(node);
  if (!x.is_view()) return;
  if (const NodePtr& node = x._base().grad_fn()) fn(node);
}

}  // namespace

struct UnitScope::State {
  UnitHooks& hooks;
  const std::uint32_t unit;
  std::shared_ptr<UnitUses> uses;   // owners: the adapter, and graphs
  std::shared_ptr<UnitUse> use;     // owners: this, and graphs; null where no graph is built
  std::vector<NodePtr> made_input;  // nodes before the unit; a result that one of them has made is no work of the unit
  const std::uint64_t first_node = at::sequence_number::peek();  // the number of the next node of a graph
  bool is_seen = false;                                          // a result leads to the unit's part of the graph
};

UnitScope::UnitScope(UnitHooks& hooks, std::uint32_t unit)
    : state_(std::make_unique<State>(State{hooks, unit, hooks.uses().shared_from_this(), nullptr, {}})) {
  hooks.before_forward(unit);
  if (at::GradMode::is_enabled()) state_->use = state_->uses->enter(unit);
}

UnitScope::~UnitScope() {
  if (!state_) return;
  if (state_->use) state_->uses->leave(*state_->use);
  state_->hooks.forward_cut_short(state_->unit);
}

void UnitScope::add_input(const at::Tensor& x) {
  State& s = *state_;
  if (!s.use || !x.defined() || !x.requires_grad()) return;
  for_each_maker(x, [&](const NodePtr& node) { s.made_input.push_back(node); });
  if (const NodePtr& node = x.grad_fn()) before(node, [uses = s.uses, use = s.use] { uses->end_backward(*use); });
}

void UnitScope::add_output(at::Tensor& y) {
  State& s = *state_;
  if (!y.defined()) return;
  if (s.hooks.reads_parameter(s.unit, y)) y = y.clone();
  if (!s.use || !y.requires_grad()) return;
  for_each_maker(y, [&](const NodePtr& node) {
    if (std::find(s.made_input.begin(), s.made_input.end(), node) != s.made_input.end()) return;
    s.is_seen = true;
    before(node, [uses = s.uses, use = s.use] { uses->begin_backward(use); });
  });
}

bool UnitScope::leads_nowhere() const {
  return state_->use && !state_->is_seen && at::sequence_number::peek() != state_->first_node;
}

bool UnitScope::hides_graph() const { return leads_nowhere() && state_->hooks.is_in_graph(state_->unit); }

void UnitScope::begin_backward() {
  if (state_->use) state_->uses->begin_backward(state_->use);
}

void UnitScope::close() {
  const std::unique_ptr<State> state = std::move(state_);
  if (state->use) state->uses->leave(*state->use);
  state->hooks.after_forward(state->unit);
}

std::shared_ptr<TensorKeeper> UnitBorder::keeper() const { return hooks_ == nullptr ? nullptr : hooks_->keeper(); }

}  // namespace castor
