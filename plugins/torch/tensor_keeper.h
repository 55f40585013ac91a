// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/strategy.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace castor {

class KeptTensor;

/// Passes tensors that backward reads again to the strategy. Graphs own it too and may outlive the strategy: the kept
/// tensors are lost then.
///
/// Threads: those of the strategy's other calls.
class TensorKeeper final : public std::enable_shared_from_this<TensorKeeper> {
 public:
  /// `strategy` is borrowed until disconnect.
  TensorKeeper(Strategy& strategy, c10::Device device) : strategy_(&strategy), device_(device) {}
  void disconnect() { strategy_ = nullptr; }

  /// Null where the caller has to keep x: the strategy declines, or x is not on the model's device in one piece. Throws
  /// ErrorException.
  std::unique_ptr<KeptTensor> keep(const at::Tensor& x);

 private:
  friend KeptTensor;

  Strategy& strategy() const;

  Strategy* strategy_;
  const c10::Device device_;
};

/// A tensor that a strategy keeps; the destructor forgets it.
class KeptTensor {
 public:
  KeptTensor(std::shared_ptr<TensorKeeper> keeper, std::uint32_t kept, const at::Tensor& x);
  ~KeptTensor();
  KeptTensor(const KeptTensor&) = delete;
  KeptTensor& operator=(const KeptTensor&) = delete;

  /// The same bits as those of the tensor that was kept, in memory that lasts until `forget`. Throws ErrorException.
  at::Tensor recall() const;
  /// Throws ErrorException.
  void forget();

 private:
  std::shared_ptr<TensorKeeper> keeper_;  // null once forgotten
  const std::uint32_t kept_;
  const std::vector<std::int64_t> sizes_;
  const at::TensorOptions options_;
  const bool requires_grad_;
};

}  // namespace castor
