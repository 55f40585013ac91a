// SPDX-License-Identifier: Apache-2.0
#include "team_trust.h"

#include <utility>

namespace castor {

void TeamTrust::add(const TrustTerms& terms, const TrustedTensor& tensor, float* ratio) {
  tensors_->push_back({terms, tensor, 0, 0, ratio});
}

Event TeamTrust::start(HostTeam& team, std::uint32_t urgency, const std::vector<Event>& after) {
  HostNorm weights(weights_), grads(grads_);
  for (Tensor& one : *tensors_) {
    weights.add(one.tensor.weight, one.tensor.n, &one.weight_sum);
    grads.add(one.tensor.grad, one.tensor.n, &one.grad_sum);
  }
  weights.start(team, urgency, after);
  grads.start(team, urgency, after);
  HostTeam::Job job;
  job.urgency = urgency;
  job.after = {weights.done(), grads.done()};
  job.run = [tensors = tensors_, weights, grads](std::uint32_t) mutable -> Result<void> {
    CASTOR_TRY(weights.finish());
    CASTOR_TRY(grads.finish());
    for (const Tensor& one : *tensors) *one.ratio = trust_ratio(one.terms, one.weight_sum, one.grad_sum);
    return {};
  };
  return team.add(std::move(job));
}

}  // namespace castor
