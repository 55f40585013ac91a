// SPDX-License-Identifier: Apache-2.0
#include "tensor_keeper.h"

#include <castor/plugins/torch/errors.h>

#include <ATen/ATen.h>

#include <utility>

namespace castor {

Strategy& TensorKeeper::strategy() const {
  if (strategy_ != nullptr) return *strategy_;
  throw ErrorException(
      {ErrorKind::usage,
       "backward through a graph whose strategy was destroyed; keep the boosted model and optimizer until backward ends"});
}

std::unique_ptr<KeptTensor> TensorKeeper::keep(const at::Tensor& x) {
  if (strategy_ == nullptr || x.device() != device_ || !x.is_contiguous() || x.numel() == 0) return nullptr;
  const auto kept = strategy_->activations().keep(x.const_data_ptr(), x.nbytes()).value();
  return kept != 0 ? std::make_unique<KeptTensor>(shared_from_this(), kept, x) : nullptr;
}

KeptTensor::KeptTensor(std::shared_ptr<TensorKeeper> keeper, std::uint32_t kept, const at::Tensor& x)
    : keeper_(std::move(keeper)),
      kept_(kept),
      sizes_(x.sizes().vec()),
      options_(x.options()),
      requires_grad_(x.requires_grad()) {}

/// Drops a failure: the end of a graph cannot act on it.
KeptTensor::~KeptTensor() {
  if (keeper_ && keeper_->strategy_ != nullptr) (void)keeper_->strategy_->activations().forget(kept_);
}

at::Tensor KeptTensor::recall() const {
  if (!keeper_)
    throw ErrorException(
        {ErrorKind::usage, "backward ran through a recomputed part a second time; run its forward pass again first"});
  void* const data = keeper_->strategy().activations().recall(kept_).value();
  return at::for_blob(data, sizes_)
      .options(options_)
      .target_device(options_.device())
      .make_tensor()
      .set_requires_grad(requires_grad_);
}

void KeptTensor::forget() {
  if (const auto keeper = std::exchange(keeper_, nullptr)) (void)keeper->strategy().activations().forget(kept_).value();
}

}  // namespace castor
