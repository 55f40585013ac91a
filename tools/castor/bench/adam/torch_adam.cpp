// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/torch_adam.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>

#include <castor/plugins/torch/runtime.h>

namespace castor::bench {
namespace {

class FusedAdamW final : public TorchAdam {
 public:
  FusedAdamW(const UpdateArrays& arrays, float* wide_grad)
      : master_(tensor_of(arrays.master, arrays.n, at::kFloat)),
        exp_avg_(tensor_of(arrays.exp_avg, arrays.n, at::kFloat)),
        exp_avg_sq_(tensor_of(arrays.exp_avg_sq, arrays.n, at::kFloat)),
        wide_grad_(tensor_of(wide_grad, arrays.n, at::kFloat)),
        grad_(tensor_of(const_cast<void*>(arrays.grad), arrays.n, at::kBFloat16)),
        weight_(tensor_of(arrays.weight, arrays.n, at::kBFloat16)),
        step_(at::ones({}, at::kFloat)) {}

  void update(unsigned n_threads) override {
    const c10::InferenceMode no_graph;
    set_threads(static_cast<int>(n_threads));
    at::_fused_adamw_({master_}, {wide_grad_}, {exp_avg_}, {exp_avg_sq_}, {}, {step_}, 1e-4, 0.9, 0.999, 0.1, 1e-8,
                      false, false);
  }

  void update_with_casts(unsigned n_threads) override {
    const c10::InferenceMode no_graph;
    set_threads(static_cast<int>(n_threads));
    wide_grad_.copy_(grad_);
    update(n_threads);
    weight_.copy_(master_);
  }

 private:
  static at::Tensor tensor_of(void* data, std::uint64_t n, at::ScalarType type) {
    return at::from_blob(data, {static_cast<std::int64_t>(n)}, type);
  }

  at::Tensor master_, exp_avg_, exp_avg_sq_, wide_grad_, grad_, weight_, step_;
};

}  // namespace

Result<std::unique_ptr<TorchAdam>> make_torch_adam(const UpdateArrays& arrays, float* wide_grad) {
  const c10::InferenceMode no_graph;
  return std::unique_ptr<TorchAdam>(std::make_unique<FusedAdamW>(arrays, wide_grad));
}

}  // namespace castor::bench
