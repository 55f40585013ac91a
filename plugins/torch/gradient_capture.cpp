// SPDX-License-Identifier: Apache-2.0
#include "gradient_capture.h"

#include "parameter_storage.h"

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace castor {
namespace {

using Hook = std::unique_ptr<torch::autograd::PostAccumulateGradHook>;

/// The shape of a tensor without memory, which it keeps alive.
DLManagedTensor* hollow(const at::Tensor& grad) {
  struct Held {
    DLManagedTensor managed{};
    at::Tensor tensor;
  };
  auto held = std::make_unique<Held>();
  held->tensor = grad;
  DLManagedTensor& managed = held->managed;
  managed.dl_tensor = {nullptr,
                       {kDLCPU, 0},
                       static_cast<std::int32_t>(grad.dim()),
                       at::getDLDataType(grad),
                       const_cast<std::int64_t*>(held->tensor.sizes().data()),
                       nullptr,
                       0};
  managed.manager_ctx = held.get();
  managed.deleter = [](DLManagedTensor* self) { delete static_cast<Held*>(self->manager_ctx); };
  return &held.release()->managed;
}

class Capture final : public torch::autograd::PostAccumulateGradHook {
 public:
  Capture(std::uint32_t id, GradientSink sink, Hook users)
      : id_(id), sink_(std::move(sink)), users_(std::move(users)) {}

  void operator()(const torch::autograd::Variable& parameter) override {
    if (users_) (*users_)(parameter);
    const at::Tensor grad = std::exchange(parameter.mutable_grad(), at::Tensor());
    if (grad.defined()) sink_(id_, grad);
  }

  Hook take_users() { return std::move(users_); }

 private:
  const std::uint32_t id_;
  const GradientSink sink_;
  Hook users_;  // null where there is none
};

/// Null where there is none of ours.
Capture* capture_of(const at::Tensor& parameter) {
  if (torch::autograd::impl::get_autograd_meta(parameter) == nullptr) return nullptr;
  return dynamic_cast<Capture*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

}  // namespace

void capture_gradient(const at::Tensor& parameter, std::uint32_t id, GradientSink sink) {
  Hook users = std::move(torch::autograd::impl::post_acc_grad_hooks(parameter));
  torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                 std::make_unique<Capture>(id, std::move(sink), std::move(users)));
}

void stop_capture(const at::Tensor& parameter) {
  if (Capture* const capture = capture_of(parameter))
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, capture->take_users());
}

bool is_captured(const at::Tensor& parameter) { return capture_of(parameter) != nullptr; }

at::Tensor ordered_as(const at::Tensor& grad, const at::Tensor& parameter) {
  if (parameter.is_contiguous()) return grad.contiguous();
  const at::Tensor detached = grad.detach();
  if (detached.strides() == parameter.strides()) return detached;
  return at::empty_strided(parameter.sizes(), parameter.strides(), grad.options()).copy_(detached);
}

DLManagedTensor* handed_over(const at::Tensor& grad, const at::Tensor& parameter) {
  const at::Tensor ordered = ordered_as(grad.to(parameter.scalar_type()), parameter);
  return ordered.is_meta() ? hollow(ordered) : at::toDLPack(ordered);
}

}  // namespace castor
