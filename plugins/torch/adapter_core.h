// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/torch_adapter.h>
#include "host_table.h"
#include "tensor_keeper.h"
#include "unit_hooks.h"
#include "unit_uses.h"

namespace castor {

/// The adapter's state: the table through which strategies read the model, and the hooks that units call.
class AdapterCore final : public UnitHooks {
 public:
  /// The calls that a strategy gets: each unit and each gradient, or the end of backward only.
  enum class Hooking { units, none };

  AdapterCore(std::shared_ptr<torch::nn::Module> model, ModelMap map, c10::Device device, std::uint64_t seed,
              std::function<bool()> interrupted)
      : model_(std::move(model)), host_(std::move(map), device, seed, std::move(interrupted)) {}
  ~AdapterCore();

  TorchHost& host() { return host_; }
  void connect(Strategy* strategy, Hooking hooking);
  void disconnect(const Strategy* strategy);
  bool is_resident(const Strategy* strategy) const { return strategy == strategy_ && hooking_ == Hooking::none; }
  Result<void> backward(const at::Tensor& loss, double loss_scale);

  void before_forward(std::uint32_t unit) override;
  void after_forward(std::uint32_t unit) override;
  void forward_cut_short(std::uint32_t unit) override;
  void before_backward(std::uint32_t unit) override;
  void after_backward(std::uint32_t unit) override;
  UnitUses& uses() override { return *uses_; }
  bool reads_parameter(std::uint32_t unit, const at::Tensor& tensor) const override;
  std::shared_ptr<TensorKeeper> keeper() override { return keeper_; }

 private:
  void hook();
  void unhook();
  void stop_if_interrupted() const;
  void check(const Result<void>& result);
  void end_broken_backward();

  const std::shared_ptr<torch::nn::Module>
      model_;  // owners: the caller, and this as long as the table names its parameters
  TorchHost host_;
  Strategy* strategy_ = nullptr;
  // Owners of both: this, and graphs that were built while the strategy was connected.
  std::shared_ptr<TensorKeeper> keeper_;
  std::shared_ptr<UnitUses> uses_;
  Hooking hooking_ = Hooking::none;
  bool strategy_failed_ = false;  ///< since the last pass began; its passes are not ended then, but abandoned
};

}  // namespace castor
