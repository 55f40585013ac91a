// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/torch_adapter.h>
#include "gradient_stand_ins.h"
#include "torch_host.h"
#include "tensor_keeper.h"
#include "units/unit_hooks.h"
#include "units/unit_uses.h"

#include <memory>
#include <thread>

namespace castor {

/// The adapter's state: the table through which strategies read the model, and the hooks that units call.
class AdapterCore final : public UnitHooks {
 public:
  /// The calls that a strategy gets: each unit and each gradient, or the end of backward only.
  enum class Hooking { units, none };

  /// `model`: the owner of the parameters in `map`, or null where that owns them alone.
  AdapterCore(std::shared_ptr<torch::nn::Module> model, ModelMap map, c10::Device device, AdapterOptions options)
      : model_(std::move(model)),
        host_(std::move(map), device, std::move(options)),
        stand_ins_(host_.map().params, host_.grad_message()) {}
  ~AdapterCore();

  TorchHost& host() { return host_; }
  void connect(Strategy* strategy, Hooking hooking);
  /// Errors: usage, where a unit is connected through another adapter.
  Result<void> check_free() const;
  void disconnect(const Strategy* strategy);
  bool is_resident(const Strategy* strategy) const { return strategy == strategy_ && hooking_ == Hooking::none; }
  Result<void> backward(const at::Tensor& loss, double loss_scale, const BeforeBackward& before);
  /// Ends a pass that autograd has begun and that an exception has ended. No effect within backward. Errors: usage, where
  /// another thread is in it.
  Result<void> end_broken_pass();
  /// Takes the tensors away that stand for gradients (AdapterOptions::grad_message).
  std::vector<std::uint32_t> forget_gradients() { return stand_ins_.forget(); }
  /// Errors: usage, where the program has given a parameter a gradient, or has taken the tensor away that stands for one.
  Result<void> check_gradients() const { return stand_ins_.check(); }
  /// Errors: usage, where the program has given the parameter other memory since the strategy was connected; it has its
  /// own again after that.
  Result<void> check_memory(std::size_t param) const;
  /// Throws ErrorException where `module` is no unit.
  UnitBorder& border_of(const torch::nn::Module& module) const;

  void before_forward(std::uint32_t unit) override;
  void after_forward(std::uint32_t unit) override;
  void forward_cut_short(std::uint32_t unit) override;
  void before_backward(std::uint32_t unit) override;
  void after_backward(std::uint32_t unit) override;
  UnitUses& uses() override { return *uses_; }
  bool reads_parameter(std::uint32_t unit, const at::Tensor& tensor) const override;
  bool is_in_graph(std::uint32_t unit) const override;
  std::shared_ptr<TensorKeeper> keeper() override { return keeper_; }

 private:
  /// The backward pass under way.
  enum class Backward : std::uint8_t { none, called, begun_by_autograd };

  void hook();
  void unhook();
  void stop_if_interrupted() const;
  void check(const Result<void>& result);
  void take_gradient(std::uint32_t param, const at::Tensor& grad);
  void begin_backward();
  void close_open_units();
  void end_of_autograds_pass();
  void tell_micro_batch();
  Result<void> check_backward(const at::Tensor& loss) const;
  Result<void> check_params() const;

  const std::shared_ptr<torch::nn::Module>
      model_;  // owners: the caller, and this as long as the table names its parameters
  TorchHost host_;
  GradientStandIns stand_ins_;
  Strategy* strategy_ = nullptr;
  // Owners of both: this, and graphs that were built while the strategy was connected.
  std::shared_ptr<TensorKeeper> keeper_;
  std::shared_ptr<UnitUses> uses_;
  Hooking hooking_ = Hooking::none;
  std::vector<bool> trained_;  ///< by parameter: required a gradient when the strategy was connected
  Backward backward_ = Backward::none;
  std::weak_ptr<const void> autograds_pass_;  ///< lives as long as the pass that autograd has begun
  /// The thread of the last forward pass with gradients. Where all units are recomputed there is none; then of the first.
  std::thread::id trains_;
  bool strategy_failed_ = false;  ///< since the last pass began; its passes are not ended then, but abandoned
};

}  // namespace castor
