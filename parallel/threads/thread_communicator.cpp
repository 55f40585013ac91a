// SPDX-License-Identifier: Apache-2.0
#include <castor/parallel/thread_communicator.h>

#include <cstring>
#include <string>
#include <utility>

#include <castor/memory/worker_thread.h>

#include "../collective_checks.h"
#include "hub.h"
#include "reduce.h"

namespace castor {
namespace {

void move_bytes(BufferView target, BufferView source) {
  if (target.data != source.data && target.n_bytes > 0) std::memcpy(target.data, source.data, target.n_bytes);
}

/// Reduces elements [first, end) of every rank's input into `targets`, which start at element `first`.
void reduce_slice(const std::vector<Call>& calls, std::uint64_t first, std::uint64_t end,
                  const std::vector<std::byte*>& targets) {
  const auto offset_bytes = first * size_bytes(calls[0].dtype);
  std::vector<const std::byte*> sources;
  for (const auto& call : calls) sources.push_back(call.input.data + offset_bytes);
  reduce_in_order(sources, targets, end - first, calls[0].dtype, calls[0].op);
}

/// Rank r computes the r-th of world_size slices and writes it to all ranks; no other rank reads that slice.
void share_of_all_reduce(const std::vector<Call>& calls, std::size_t rank) {
  const auto element_bytes = size_bytes(calls[0].dtype);
  const auto n_elements = calls[0].input.n_bytes / element_bytes;
  const auto first = n_elements * rank / calls.size(), end = n_elements * (rank + 1) / calls.size();
  std::vector<std::byte*> targets;
  for (const auto& call : calls) targets.push_back(call.output.data + first * element_bytes);
  reduce_slice(calls, first, end, targets);
}

void share_of_reduce_scatter(const std::vector<Call>& calls, std::size_t rank) {
  const auto n_elements = calls[rank].output.n_bytes / size_bytes(calls[rank].dtype);
  reduce_slice(calls, rank * n_elements, (rank + 1) * n_elements, {calls[rank].output.data});
}

void share_of_all_gather(const std::vector<Call>& calls, std::size_t rank) {
  for (std::size_t other = 0; other < calls.size(); ++other) {
    const auto n_bytes = calls[other].input.n_bytes;
    move_bytes(calls[rank].output.part(other * n_bytes, n_bytes), calls[other].input);
  }
}

/// This rank's share of the work that the ranks have agreed on.
void run_share(const std::vector<Call>& calls, std::size_t rank) {
  switch (calls[rank].collective) {
    case Collective::all_reduce: return share_of_all_reduce(calls, rank);
    case Collective::reduce_scatter: return share_of_reduce_scatter(calls, rank);
    case Collective::all_gather: return share_of_all_gather(calls, rank);
    case Collective::broadcast:
      return move_bytes(calls[rank].output, calls[static_cast<std::size_t>(calls[rank].root)].input);
    case Collective::barrier: return;
  }
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(int rank, int world_size, std::shared_ptr<Hub> hub)
      : rank_(rank), world_size_(world_size), hub_(std::move(hub)) {}
  ~ThreadCommunicator() override {
    hub_->fail({ErrorKind::failed, "rank " + std::to_string(rank_) + " has left its communicator"});
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  Work all_reduce(BufferView data, DType dtype, ReduceOp op, Stream& stream) override {
    check_elements("all_reduce", data, dtype);
    return queue({Collective::all_reduce, data, data, dtype, op}, stream);
  }
  Work reduce_scatter(BufferView input, BufferView output, DType dtype, ReduceOp op, Stream& stream) override {
    check_parts("reduce_scatter", input, output, rank_, world_size_);
    check_elements("reduce_scatter", output, dtype);
    return queue({Collective::reduce_scatter, input, output, dtype, op}, stream);
  }
  Work all_gather(BufferView input, BufferView output, Stream& stream) override {
    check_parts("all_gather", output, input, rank_, world_size_);
    return queue({Collective::all_gather, input, output}, stream);
  }
  Work broadcast(BufferView data, int root, Stream& stream) override {
    check_root("broadcast", root, world_size_);
    check_bytes("broadcast", data);
    return queue({Collective::broadcast, data, data, DType::f32, ReduceOp::sum, root}, stream);
  }
  Work barrier(Stream& stream) override { return queue({}, stream); }
  Result<void> status() const override { return hub_->status(); }

 private:
  /// Puts the collective between the work that `stream` holds already and the work that it gets from now on.
  Work queue(const Call& call, Stream& stream) {
    auto done = worker_.run([this, call, before = stream.record()] { return take_part(call, before); });
    (void)stream.wait(done);
    return done;
  }

  Result<void> take_part(const Call& call, const Event& before) {
    if (auto outcome = before.wait(); !outcome.ok())
      hub_->fail({outcome.error().kind, "rank " + std::to_string(rank_) + " brought a failed stream to " +
                                            name(call.collective) + ": " + outcome.error().message});
    CASTOR_TRY(hub_->meet(rank_, call));
    run_share(hub_->calls(), static_cast<std::size_t>(rank_));
    hub_->part();
    return {};
  }

  const int rank_;
  const int world_size_;
  const std::shared_ptr<Hub> hub_;  // owners: the communicators of the group
  WorkerThread worker_;             // last: it ends before the members above are destroyed
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int world_size) {
  if (world_size <= 0) throw ContractViolation("a communicator of " + std::to_string(world_size) + " ranks");
  const auto hub = std::make_shared<Hub>(world_size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.push_back(std::make_unique<ThreadCommunicator>(rank, world_size, hub));
  return ranks;
}

}  // namespace castor
