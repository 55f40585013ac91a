// SPDX-License-Identifier: Apache-2.0
#include "hub.h"

#include <string>
#include <tuple>
#include <utility>

namespace castor {
namespace {

auto what_must_agree(const Call& call) {
  return std::tuple(call.collective, call.input.n_bytes, call.output.n_bytes, call.dtype, call.op, call.root);
}

/// `all_reduce of 4096 bytes (bf16, sum, root 0)`
std::string describe(const Call& call) {
  return std::string(name(call.collective)) + " of " + std::to_string(call.input.n_bytes) + " bytes (" +
         name(call.dtype) + ", " + name(call.op) + ", root " + std::to_string(call.root) + ")";
}

}  // namespace

const char* name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_gather: return "all_gather";
    case Collective::broadcast: return "broadcast";
    case Collective::barrier: return "barrier";
  }
  throw ContractViolation("Collective holds no collective");
}

Result<void> Hub::agreement() const {
  for (std::size_t rank = 1; rank < calls_.size(); ++rank)
    if (what_must_agree(calls_[rank]) != what_must_agree(calls_[0]))
      return Error{ErrorKind::usage, "the ranks do not agree: rank 0 called " + describe(calls_[0]) + ", rank " +
                                         std::to_string(rank) + " called " + describe(calls_[rank]) +
                                         "; all must call the same, in the same order"};
  return {};
}

Result<void> Hub::meet(int rank, const Call& call) {
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  calls_[static_cast<std::size_t>(rank)] = call;
  const auto round = n_rounds_met_;
  if (++n_met_ == world_size()) {
    n_met_ = 0;
    ++n_rounds_met_;
    round_outcome_ = failure_ = agreement();
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return n_rounds_met_ != round || !failure_.ok(); });
  return n_rounds_met_ != round ? round_outcome_ : failure_;
}

void Hub::part() {
  std::unique_lock lock(mutex_);
  const auto round = n_rounds_parted_;
  if (++n_parted_ == world_size()) {
    n_parted_ = 0;
    ++n_rounds_parted_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return n_rounds_parted_ != round; });
}

void Hub::fail(Error error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(error);
  }
  changed_.notify_all();
}

Result<void> Hub::status() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace castor
