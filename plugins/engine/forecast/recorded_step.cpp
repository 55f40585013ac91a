// SPDX-License-Identifier: Apache-2.0
#include <castor/engine/recorded_step.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace castor {
namespace {

/// Of a call that falls away. As in a recording work before the first call belongs to none.
void add_work(RecordedCall& before, const RecordedCall& call) {
  before.flops += call.flops;
  before.peak_bytes = std::max(before.peak_bytes, call.peak_bytes);
}

}  // namespace

std::uint64_t RecordedStep::Param::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1},
                         [](std::uint64_t n, std::int64_t extent) { return n * static_cast<std::uint64_t>(extent); });
}

std::uint64_t RecordedStep::n_params() const {
  std::uint64_t n = 0;
  for (const Param& param : params) n += param.numel();
  return n;
}

double RecordedStep::flops() const {
  double sum = 0;
  for (const RecordedCall& call : calls) sum += call.flops;
  return sum;
}

std::vector<double> RecordedStep::flops_of_units() const {
  using Kind = StepCall::Kind;
  std::vector<double> sums(units.size());
  std::vector<std::uint32_t> open;
  for (const RecordedCall& call : calls) {
    const Kind kind = call.call.kind;
    if (kind == Kind::forward || kind == Kind::backward) open.push_back(call.call.id);
    if (kind == Kind::end_forward || kind == Kind::end_backward)
      if (const auto begun = std::find(open.rbegin(), open.rend(), call.call.id); begun != open.rend())
        open.erase(std::next(begun).base());
    if (!open.empty()) sums.at(open.back()) += call.flops;
  }
  return sums;
}

std::uint64_t RecordedStep::peak_bytes() const {
  std::uint64_t most = 0;
  for (const RecordedCall& call : calls) most = std::max(most, call.peak_bytes);
  return most;
}

void RecordedStep::repeat(std::uint32_t n) {
  using Kind = StepCall::Kind;
  const std::vector<RecordedCall> once = std::move(calls);
  calls.clear();
  const auto is_keep = [](const RecordedCall& call) { return call.call.kind == Kind::keep; };
  const auto n_kept = static_cast<std::uint32_t>(std::count_if(once.begin(), once.end(), is_keep));
  for (std::uint32_t i = 0; i < std::max(n, 1u); ++i)
    for (RecordedCall call : once) {
      const Kind kind = call.call.kind;
      if (kind == Kind::announce && i + 1 != n) {
        if (!calls.empty()) add_work(calls.back(), call);
        continue;
      }
      if (kind == Kind::keep || kind == Kind::recall || kind == Kind::forget) call.call.id += i * n_kept;
      calls.push_back(call);
    }
}

}  // namespace castor
