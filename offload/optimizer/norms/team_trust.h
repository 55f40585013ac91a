// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <castor/memory/host_team.h>
#include <castor/rules/trust_ratio.h>

#include "host_norm.h"

namespace castor {

/// Trust ratios of some tensors in host memory, made by a team of threads: norms block by block, then the ratios.
///
/// Requires: tensors of one dtype of weights and one of gradients.
class TeamTrust {
 public:
  TeamTrust(DType weights, DType grads) : weights_(weights), grads_(grads) {}

  /// Adds `tensor`, whose ratio is written to `*ratio`. Requires: it has the dtypes given.
  void add(const TrustTerms& terms, const TrustedTensor& tensor, float* ratio);
  bool empty() const { return tensors_->empty(); }

  /// Queues the work to `team`, to begin after the events in `after`; returns the event of its end, failed where one of
  /// `after` failed. The memory that it reads and writes must stay until then.
  Event start(HostTeam& team, std::uint32_t urgency, const std::vector<Event>& after);

 private:
  struct Tensor {
    TrustTerms terms;
    TrustedTensor tensor;
    double weight_sum = 0, grad_sum = 0;
    float* ratio = nullptr;
  };

  const DType weights_, grads_;
  std::shared_ptr<std::vector<Tensor>> tensors_ = std::make_shared<std::vector<Tensor>>();  // owners: this and the job
};

}  // namespace castor
