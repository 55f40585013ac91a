// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/random.h>

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace castor {

class TensorKeeper;
class UnitHooks;

/// A module with parameters of its own: the piece of a model that Castor fetches and releases as a whole.
///
/// LibTorch's C++ modules have no hooks, so a unit brings its own: `forward` of a subclass goes through `run`, which
/// tells the strategy before and after, forward and backward. Without a strategy (the resident run) `run` adds
/// nothing to the graph. Parameters are declared without memory; a strategy binds them to memory.
///
/// Threads: the training thread, and autograd's thread while the training thread waits in backward.
class Unit : public torch::nn::Module {
 public:
  /// A parameter that this unit registered, and its initial values.
  struct Declared {
    at::Tensor parameter;
    Init init;
  };

  using Module::Module;

  /// Set by TorchAdapter; null = no strategy. `id` is the unit's number in the host table. `hooks` must outlive every
  /// graph that is built while they are set.
  void set_hooks(UnitHooks* hooks, std::uint32_t id) { hooks_ = hooks, id_ = id; }

  /// Passes tensors that backward reads again to the strategy; null without one.
  std::shared_ptr<TensorKeeper> keeper() const;

  /// In the order of registration.
  const std::vector<Declared>& declared() const { return declared_; }
  /// Parameters of other units that this one uses.
  const std::vector<at::Tensor>& shared() const { return shared_; }

 protected:
  /// Registers a parameter of `sizes` without memory, of the dtype and on the device of `options`. Touching it before
  /// it is bound throws c10::Error with "parameter NAME is declared but not placed yet" (where
  /// explains_released_access(), runtime.h).
  at::Tensor declare(const std::string& name, at::IntArrayRef sizes, const at::TensorOptions& options, Init init);
  /// Uses a parameter that another unit has declared (a tied head). It is not registered again.
  void share(const at::Tensor& parameter);

  /// Runs `body(x)` between the unit's hooks and returns its tensor. `body` must read the unit's parameters only
  /// while it runs, and must not change x in place.
  ///
  /// x may be of any type; without a gradient (token ids, images, evaluation) the unit has no after_backward. Where
  /// `body` returns a view (of x, of a parameter) the caller gets a copy of it: memory of a released parameter must not
  /// escape, and a view that is changed in place later would lose the hook. Throws ErrorException with the strategy's
  /// failure.
  template <typename Body>
  at::Tensor run(const at::Tensor& x, const Body& body) {
    if (hooks_ == nullptr) return body(x);
    return leave(body(enter(x)));
  }

 private:
  at::Tensor enter(const at::Tensor& x);
  at::Tensor leave(at::Tensor y);
  bool may_alias(const at::Tensor& y) const;

  UnitHooks* hooks_ = nullptr;
  std::uint32_t id_ = 0;
  std::vector<Declared> declared_;
  std::vector<at::Tensor> shared_;
};

}  // namespace castor
