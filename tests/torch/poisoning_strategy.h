// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/torch_adapter.h>

#include <ATen/ATen.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace castor::testing {

/// The harshest strategy: parameters have memory only between a unit's before_ and after_, fresh memory each time, and
/// the memory that they leave is filled with NaN. A read of a parameter at a wrong moment, or through a saved view that
/// did not follow, gives NaN or an error. Kept tensors are elsewhere meanwhile, and NaN once forgotten.
class PoisoningStrategy final : public Strategy, private ValueCalls, private ActivationCalls {
 public:
  explicit PoisoningStrategy(TorchAdapter& adapter, c10::Device device = c10::kCPU);
  ~PoisoningStrategy() override;

  Result<void> before_forward(std::uint32_t unit) override { return open("before_forward", unit); }
  Result<void> after_forward(std::uint32_t unit) override { return close("after_forward", unit); }
  Result<void> before_backward(std::uint32_t unit) override { return open("before_backward", unit); }
  Result<void> after_backward(std::uint32_t unit) override { return close("after_backward", unit); }
  Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) override;
  Result<void> end_of_backward() override;
  Result<castor_stats> stats() override { return castor_stats{}; }
  /// Has no masters.
  ValueCalls& values() override { return *this; }
  ActivationCalls& activations() override { return *this; }

  /// The call that fails, spelled as in the log below, such as "before_backward 1".
  void fail_at(std::string call) { fails_at_ = std::move(call); }

  bool keeps = false;
  std::vector<std::string> log;  ///< "before_forward 0", …, "gradient 3", "end_of_backward", "keep 1"
  std::map<std::uint32_t, std::vector<at::Tensor>> grads;  ///< by parameter, in order of arrival

 private:
  struct Home {
    at::Tensor values;  // the parameter's true values
    at::Tensor block;   // where it is bound now; undefined = released
    int n_users = 0;
  };

  Result<std::uint32_t> keep(const void* data, std::uint64_t n_bytes) override;
  Result<void*> recall(std::uint32_t kept) override;
  Result<void> forget(std::uint32_t kept) override;

  Result<void> record(const std::string& call, std::uint32_t id);
  Result<void> open(const std::string& call, std::uint32_t unit);
  Result<void> close(const std::string& call, std::uint32_t unit);
  void take(std::uint32_t param);
  void leave(std::uint32_t param);

  ModelHost& host_;
  const c10::Device device_;
  std::vector<Home> homes_;
  std::vector<at::Tensor> kept_;  // copies in host memory, by number less one
  std::map<std::uint32_t, at::Tensor> recalled_;
  std::vector<at::Tensor> graveyard_;  // poisoned, but mapped: a stale read gives NaN, not a fault
  std::set<std::uint32_t> open_units_;
  std::string fails_at_;
};

/// The ids of a unit's parameters.
std::vector<std::uint32_t> params_of(ModelHost& host, std::uint32_t unit);
/// The first values number `first` to first + n - 1 of a parameter, as fp32.
Result<void> first_values(ModelHost& host, std::uint32_t param, std::uint64_t first, std::uint64_t n, float* out);
/// A parameter's first values, in its own dtype, on `device`.
at::Tensor initial_values(ModelHost& host, std::uint32_t param, c10::Device device);

/// Parameters that are bound once, for good, to memory of this object: the plain run.
class PlainMemory {
 public:
  explicit PlainMemory(TorchAdapter& adapter, c10::Device device = c10::kCPU);
  const std::vector<at::Tensor>& values() const { return values_; }

 private:
  std::vector<at::Tensor> values_;
};

}  // namespace castor::testing
