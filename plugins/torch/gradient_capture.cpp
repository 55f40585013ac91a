// SPDX-License-Identifier: Apache-2.0
#include "gradient_capture.h"

#include <ATen/DLConvertor.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace castor {
namespace {

class Capture final : public torch::autograd::PostAccumulateGradHook {
 public:
  Capture(std::uint32_t id, GradientSink sink) : id_(id), sink_(std::move(sink)) {}

  void operator()(const torch::autograd::Variable& parameter) override {
    const at::Tensor grad = std::exchange(parameter.mutable_grad(), at::Tensor());
    sink_(id_, at::toDLPack(grad.to(parameter.scalar_type()).contiguous()));
  }

 private:
  const std::uint32_t id_;
  const GradientSink sink_;
};

}  // namespace

void capture_gradient(const at::Tensor& parameter, std::uint32_t id, GradientSink sink) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Capture>(id, std::move(sink)));
}

void stop_capture(const at::Tensor& parameter) { torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr); }

}  // namespace castor
