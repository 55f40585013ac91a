// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/adam.h>

#include <algorithm>
#include <utility>

#include <castor/memory/host_team.h>
#include <castor/rules/update_parts.h>

namespace castor {
namespace {

/// Runs the host's loop on the parts.
class HostAdamTeam final : public AdamKernel {
 public:
  explicit HostAdamTeam(std::unique_ptr<HostTeam> team) : team_(std::move(team)) {}

  Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const UpdateArrays& arrays) override {
    const auto update = [&](const UpdateArrays& part) { return loop_->update(stream, coefficients, part); };
    return team_->add(job_of_parts(arrays, update)).wait();
  }

 private:
  const std::unique_ptr<AdamKernel> loop_ = make_host_adam();
  const std::unique_ptr<HostTeam> team_;
};

}  // namespace

UpdateArrays UpdateArrays::part(std::uint64_t first, std::uint64_t count) const {
  UpdateArrays found = *this;
  const auto at = [first](auto* array, DType dtype) {
    return array == nullptr ? nullptr : array + first * size_bytes(dtype);
  };
  if (master != nullptr) found.master += first;
  if (master_low != nullptr) found.master_low += first;
  found.exp_avg = at(static_cast<std::byte*>(exp_avg), exp_avg_dtype(moments));
  found.exp_avg_sq = at(static_cast<std::byte*>(exp_avg_sq), exp_avg_sq_dtype(moments));
  found.grad = at(static_cast<const std::byte*>(grad), grad_dtype);
  found.weight = at(static_cast<std::byte*>(weight), weight_dtype);
  found.first += static_cast<std::uint32_t>(first);
  found.n = count;
  return found;
}

HostTeam::Job job_of_parts(const UpdateArrays& arrays, std::function<Result<void>(const UpdateArrays&)> update) {
  HostTeam::Job job;
  job.n_parts = static_cast<std::uint32_t>((arrays.n + kUpdatePartElements - 1) / kUpdatePartElements);
  job.run = [arrays, update = std::move(update)](std::uint32_t part) {
    const std::uint64_t first = part * kUpdatePartElements;
    return update(arrays.part(first, std::min(kUpdatePartElements, arrays.n - first)));
  };
  return job;
}

Result<std::unique_ptr<AdamKernel>> make_host_adam(unsigned n_threads) {
  CASTOR_ASSIGN(auto team, make_host_team(n_threads));
  return std::unique_ptr<AdamKernel>(std::make_unique<HostAdamTeam>(std::move(team)));
}

}  // namespace castor
