// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace castor {

/// While it lives, LibTorch's factories (torch::empty, torch::randn, those of its layers) and the parameters that units
/// declare are on the meta device in this thread, whatever device is named: tensors with shapes and no memory. So a model and its batch are
/// made for estimate():
///
///     const castor::OnMeta meta;
///     const auto model = std::make_shared<Net>();
///     const auto loss = [&] { return model->loss(torch::randn({32, 64})); };
///     const auto found = castor::estimate(model, loss, castor::Gemini{…}, castor::AdamW{});
///
/// Requires: ended in the thread that began it; guards end in the reverse order of their beginnings.
class [[nodiscard]] OnMeta {
 public:
  OnMeta();
  ~OnMeta();
  OnMeta(const OnMeta&) = delete;
  OnMeta& operator=(const OnMeta&) = delete;

  /// True while one lives in this thread.
  static bool active();

 private:
  struct Redirection;
  const std::unique_ptr<Redirection> redirection_;
};

}  // namespace castor
