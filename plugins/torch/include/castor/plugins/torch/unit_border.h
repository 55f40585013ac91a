// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/tensors_in.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

namespace castor {

class TensorKeeper;
class UnitHooks;

/// One forward pass of a unit. From the constructor to `close` its parameters have memory. The tensor hooks that it
/// leaves in the graph tell the strategy when backward enters the unit and when it has left it.
class UnitScope {
 public:
  /// Throws ErrorException with the strategy's failure, as close does.
  UnitScope(UnitHooks& hooks, std::uint32_t unit);
  /// Without close (an exception has passed) the unit is released all the same.
  ~UnitScope();
  UnitScope(const UnitScope&) = delete;
  UnitScope& operator=(const UnitScope&) = delete;

  /// Before the unit computes: x is one of its inputs.
  void add_input(const at::Tensor& x);
  /// After it has computed: y is one of its results. Where y shares memory with a parameter of the unit, which is about
  /// to be released, y becomes a copy.
  void add_output(at::Tensor& y);
  /// True where the unit has computed with gradients, and none of its results so far leads to its part of the graph.
  bool leads_nowhere() const;
  /// True where that part is still there, too, so that backward will not be noticed when it enters the unit. As long as
  /// the pass is not closed the parameters have memory.
  bool hides_graph() const;
  /// For backward passes that are noticed in another way. Throws ErrorException. No effect where no graph is built.
  void begin_backward();
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The border around the forward function of a unit, the piece of a model that Castor fetches and releases as a whole.
/// LibTorch's C++ modules have no hooks, so a unit brings its own.
///
/// Without a strategy (the resident run) `run` only calls the function. With one it adds tensor hooks to the graph and
/// never an operator, so gradients are summed in the order in which they would be without.
/// Threads: the training thread, and autograd's thread while the training thread waits in backward.
class UnitBorder {
 public:
  /// Set by TorchAdapter; null = no strategy. `id` is the unit's number in the host table. `hooks` outlives the
  /// connection.
  void set_hooks(UnitHooks* hooks, std::uint32_t id) { hooks_ = hooks, id_ = id; }
  const UnitHooks* hooks() const { return hooks_; }

  /// One forward pass for callers that cannot put it into a function; null without a strategy.
  std::unique_ptr<UnitScope> enter() { return hooks_ ? std::make_unique<UnitScope>(*hooks_, id_) : nullptr; }

  /// Passes tensors that backward reads again to the strategy; null without one.
  std::shared_ptr<TensorKeeper> keeper() const;

  /// Computes `body(inputs)`, or `body(a, b, …)` where `inputs` is a tuple of several, while the unit's parameters
  /// have memory; `body` reads them at no other time. Inputs and result are tensors, or optionals, lists, pairs and
  /// tuples of tensors. Throws ErrorException with the strategy's failure.
  ///
  /// Backward enters the unit when the gradient of one of its results is complete, and leaves it when the gradient of
  /// one of its inputs is; where no input has one (token ids, leaves, constants), when it enters an earlier unit or
  /// ends.
  template <typename Inputs, typename Body>
  auto run(const Inputs& inputs, const Body& body) {
    if (hooks_ == nullptr) return call(body, inputs);
    UnitScope scope(*hooks_, id_);
    for_each_tensor(inputs, [&](const at::Tensor& x) { scope.add_input(x); });
    auto result = call(body, inputs);
    static_assert(holds_tensors<decltype(result)>(), "a unit returns a tensor, or an optional, list or tuple of them");
    for_each_tensor(result, [&](at::Tensor& y) { scope.add_output(y); });
    scope.close();
    return result;
  }

 protected:
  UnitBorder() = default;
  ~UnitBorder() = default;

 private:
  template <typename Body, typename Inputs>
  static auto call(const Body& body, const Inputs& inputs) {
    if constexpr (TupleLike<Inputs>)
      return std::apply(body, inputs);
    else
      return body(inputs);
  }

  UnitHooks* hooks_ = nullptr;
  std::uint32_t id_ = 0;
};

}  // namespace castor
