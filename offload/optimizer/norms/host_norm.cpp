// SPDX-License-Identifier: Apache-2.0
#include "host_norm.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace castor {

void HostNorm::add(const void* grad, std::uint64_t n, double* sum) {
  work_->tensors.push_back({grad, n, work_->blocks.size(), sum});
  work_->blocks.resize(work_->blocks.size() + n_norm_blocks(n));
}

void HostNorm::start(HostTeam& team, std::uint32_t urgency, std::vector<Event> after) {
  HostTeam::Job job;
  job.urgency = urgency;
  job.after = std::move(after);
  job.n_parts = static_cast<std::uint32_t>(work_->blocks.size());
  for (const Tensor& tensor : work_->tensors) job.touched_bytes += tensor.n * size_bytes(work_->dtype);
  job.run = [work = work_](std::uint32_t part) {
    const auto begins_behind = [](std::uint32_t block, const Tensor& tensor) { return block < tensor.first_block; };
    const Tensor& tensor =
        *std::prev(std::upper_bound(work->tensors.begin(), work->tensors.end(), part, begins_behind));
    sum_norm_blocks(tensor.grad, work->dtype, tensor.n, part - tensor.first_block, 1, &work->blocks[part]);
    return Result<void>();
  };
  done_ = team.add(std::move(job));
}

Result<void> HostNorm::finish() {
  CASTOR_TRY(done_.wait());
  for (const Tensor& tensor : work_->tensors)
    *tensor.sum = add_norm_blocks(std::span(work_->blocks).subspan(tensor.first_block, n_norm_blocks(tensor.n)));
  return {};
}

}  // namespace castor
