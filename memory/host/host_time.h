// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <castor/memory/stream.h>

namespace castor {

/// A time by the host's clock.
class HostTime final : public StreamTime {
 public:
  /// `ns` is valid once `reached` is reached.
  HostTime(std::shared_ptr<const std::uint64_t> ns, Event reached) : ns_(std::move(ns)), reached_(std::move(reached)) {}

  Result<double> seconds_since(const StreamTime& earlier) const override;
  /// A stream reaches its points in their order.
  bool known_since(const StreamTime&, std::chrono::nanoseconds limit) const override {
    return reached_.wait_for(limit);
  }

 private:
  std::uint64_t ns() const;

  const std::shared_ptr<const std::uint64_t> ns_;  // owners: this, and the worker that writes it
  const Event reached_;
};

}  // namespace castor
