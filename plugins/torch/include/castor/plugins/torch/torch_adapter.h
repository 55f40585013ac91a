// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/rules/state_format.h>
#include <castor/plugins/booster.h>
#include <castor/plugins/strategy.h>
#include <castor/plugins/torch/adapter_options.h>
#include <castor/plugins/torch/model_parts.h>
#include <castor/plugins/torch/unit_border.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

namespace torch::nn {
class Module;
}

namespace castor {

class AdapterCore;

/// What TorchAdapter::backward calls between its checks and the pass; an error ends it.
using BeforeBackward = std::function<Result<void>()>;

/// A LibTorch model as a ModelHost: its units and parameters by number, one storage per parameter for life, hooks
/// around each unit, gradients passed on as they arrive.
///
/// Order of destruction: the strategy, then the adapter; graphs that were built while a strategy was connected must
/// not be differentiated afterwards.
/// Threads: the training thread, and autograd's thread while the training thread waits in backward().
class TorchAdapter final {
 public:
  /// All parameters of the model are on `device`, in a unit, and of dense memory of their own. Those that a unit has
  /// declared begin with values that the seed decides, others with those they have: their memory is freed when a
  /// strategy first binds them, and tensor and storage stay.
  /// Errors: usage; failed where `device` cannot be initialised.
  static Result<std::unique_ptr<TorchAdapter>> make(std::shared_ptr<torch::nn::Module> model, c10::Device device,
                                                    AdapterOptions options = {});
  /// A model as parts. All its parameters begin with the values that they have. Errors: as above; usage, for parts that
  /// contradict each other.
  static Result<std::unique_ptr<TorchAdapter>> make(const ModelParts& model, c10::Device device,
                                                    AdapterOptions options = {});
  ~TorchAdapter();

  /// The model for a plugin (Booster::boost). Valid as long as the adapter.
  ModelHost& host();

  /// Makes the units call `strategy` from now on, which must outlive the adapter's use; null unhooks. A failing hook
  /// ends its forward or backward pass: forward throws ErrorException (see guard() in errors.h), backward() returns the
  /// Error. The strategy of make_resident_strategy connects itself, without hooks; passing it in here changes nothing.
  /// Requires: no other strategy is connected (ContractViolation); one that was is destroyed before the next is
  /// connected, because it unbinds the parameters. Throws ErrorException with the error of check_free().
  void connect(Strategy* strategy);
  /// Errors: usage, where another adapter has connected units of the model to a strategy.
  Result<void> check_free() const;

  /// Runs backward from `loss` (times `loss_scale`) and tells the strategy that the micro-batch has ended. `before` is
  /// called when nothing speaks against the pass. Errors: usage, for a loss that is undefined, of several elements or
  /// without a graph, and for parameters whose memory, hooks or requires_grad have changed since the strategy was
  /// connected; then those of `before`; a hook's failure, does_not_fit where an allocator ran out, interrupted.
  Result<void> backward(const at::Tensor& loss, double loss_scale = 1, const BeforeBackward& before = {});

  /// Ends a backward pass that autograd has begun and that an exception has ended (PassRules). No effect otherwise.
  /// Errors: usage, where another thread is in it.
  Result<void> end_broken_pass();
  /// The step has ended: takes the tensors away that stand for gradients (AdapterOptions::grad_message). Returns the
  /// parameters whose gradients the strategy had.
  std::vector<std::uint32_t> forget_gradients();
  /// Errors: usage, where the program has set the gradient of a parameter, or has taken such a tensor away.
  Result<void> check_gradients() const;
  /// Errors: usage, where the program has given a parameter other memory since a strategy was connected; it has its own
  /// again after that.
  Result<void> check_memory(std::size_t param) const;

  std::uint32_t n_params() const;
  /// By name, in the order of the host table.
  NamedTensors params() const;

  /// Of a unit. Throws ErrorException where the module is none.
  UnitBorder& border_of(const torch::nn::Module& module) const;
  /// Of a unit by its number in the host table. Requires: there is one.
  UnitBorder& unit(std::size_t number) const;
  /// `module.forward(args…)` of a module that AdapterOptions::is_unit chose. One whose type is a castor::Unit can be
  /// called as well. Throws ErrorException with the strategy's failure, or where the module is no unit.
  template <typename M, typename... Args>
  auto run(M& module, Args&&... args) {
    return border_of(module).run(std::tie(args...),
                                 [&](const auto&...) { return module.forward(std::forward<Args>(args)...); });
  }

 private:
  friend Result<std::unique_ptr<Strategy>> make_resident_strategy(TorchAdapter& adapter, const StateFormat& format);

  explicit TorchAdapter(std::unique_ptr<AdapterCore> core);

  std::unique_ptr<AdapterCore> core_;
};

/// The run that every placement is compared with: all parameters, gradients and optimizer states resident on the
/// device, no chunks, no hooks, no storage swap. It shares only the rules' arithmetic, the norm and the casts with the
/// others. Parameters are materialised and initialised here; masters are whole, whatever `format` says. With clipping
/// or a loss scale a step whose gradients hold inf or nan is skipped. The strategy must not outlive the adapter.
/// Errors: does_not_fit.
Result<std::unique_ptr<Strategy>> make_resident_strategy(TorchAdapter& adapter, const StateFormat& format = {});

}  // namespace castor
