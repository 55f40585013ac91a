// SPDX-License-Identifier: Apache-2.0
#include <castor/parallel/nccl_communicator.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>
#include <utility>

#include <castor/memory/device.h>

#include "../collective_checks.h"

namespace castor {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

/// `status` as a Result; the message is `doing`, NCCL's name for the error, and its last detail, on one line.
Result<void> nccl_result(ncclResult_t status, const std::string& doing, ncclComm_t comm) {
  if (status == ncclSuccess) return {};
  std::string message = doing + ": NCCL says " + ncclGetErrorString(status);
  if (const char* detail = ncclGetLastError(comm); detail && *detail) message += std::string(" (") + detail + ")";
  std::replace(message.begin(), message.end(), '\n', ' ');
  return Error{ErrorKind::failed, std::move(message)};
}

/// Turns NVLink multicast off, where this NCCL's configuration has the field (INT_MAX: every part of it, now and
/// later).
template <typename Config>
void leave_multicast_off(Config& config) {
  if constexpr (requires { config.nvlsHostMode; }) config.nvlsHostMode = INT_MAX;
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    case DType::u8: return ncclUint8;
  }
  throw ContractViolation("DType holds no dtype");
}

ncclRedOp_t nccl_op(ReduceOp op) { return op == ReduceOp::sum ? ncclSum : ncclMax; }

cudaStream_t handle(Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(ncclComm_t comm, int rank, int world_size, std::unique_ptr<Device> device, Buffer token)
      : comm_(comm), rank_(rank), world_size_(world_size), device_(std::move(device)), token_(std::move(token)) {}
  ~NcclCommunicator() override { (void)(status().ok() ? ncclCommDestroy(comm_) : ncclCommAbort(comm_)); }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  Work all_reduce(BufferView data, DType dtype, ReduceOp op, Stream& stream) override {
    check_elements("all_reduce", data, dtype);
    const auto n_elements = data.n_bytes / size_bytes(dtype);
    return queued(ncclAllReduce(data.data, data.data, n_elements, nccl_type(dtype), nccl_op(op), comm_, handle(stream)),
                  "all_reduce", stream);
  }
  Work reduce_scatter(BufferView input, BufferView output, DType dtype, ReduceOp op, Stream& stream) override {
    check_parts("reduce_scatter", input, output, rank_, world_size_);
    check_elements("reduce_scatter", output, dtype);
    const auto n_elements = output.n_bytes / size_bytes(dtype);
    return queued(
        ncclReduceScatter(input.data, output.data, n_elements, nccl_type(dtype), nccl_op(op), comm_, handle(stream)),
        "reduce_scatter", stream);
  }
  Work all_gather(BufferView input, BufferView output, Stream& stream) override {
    check_parts("all_gather", output, input, rank_, world_size_);
    return queued(ncclAllGather(input.data, output.data, input.n_bytes, ncclUint8, comm_, handle(stream)), "all_gather",
                  stream);
  }
  Work broadcast(BufferView data, int root, Stream& stream) override {
    check_root("broadcast", root, world_size_);
    check_bytes("broadcast", data);
    return queued(ncclBroadcast(data.data, data.data, data.n_bytes, ncclUint8, root, comm_, handle(stream)),
                  "broadcast", stream);
  }
  Work barrier(Stream& stream) override {
    return queued(ncclAllReduce(token_.data(), token_.data(), 1, ncclUint8, ncclMax, comm_, handle(stream)), "barrier",
                  stream);
  }
  Result<void> status() const override {
    ncclResult_t asynchronous = ncclSuccess;
    CASTOR_TRY(nccl_result(ncclCommGetAsyncError(comm_, &asynchronous), "asking for NCCL's state", comm_));
    return nccl_result(asynchronous, "rank " + std::to_string(rank_) + " of " + std::to_string(world_size_), comm_);
  }

 private:
  /// The event of a collective that NCCL has accepted; a refused one stops the stream.
  Work queued(ncclResult_t status, const char* collective, Stream& stream) {
    if (auto outcome = nccl_result(status, collective, comm_); !outcome.ok()) {
      auto refused = std::make_shared<HostEventState>();
      refused->complete(std::move(outcome));
      (void)stream.wait(Event(std::move(refused)));
    }
    return stream.record();
  }

  const ncclComm_t comm_;
  const int rank_;
  const int world_size_;
  const std::unique_ptr<Device> device_;
  const Buffer token_;  // the byte that a barrier reduces; its value does not matter
};

}  // namespace

Result<NcclId> make_nccl_id() {
  ncclUniqueId unique;
  CASTOR_TRY(nccl_result(ncclGetUniqueId(&unique), "making a communicator's id", nullptr));
  NcclId id;
  std::memcpy(id.bytes.data(), &unique, sizeof unique);
  return id;
}

Result<std::unique_ptr<Communicator>> make_nccl_communicator(int rank, int world_size, const NcclId& id, int ordinal) {
  const auto who = "rank " + std::to_string(rank) + " of " + std::to_string(world_size);
  if (rank < 0 || rank >= world_size)
    return Error{ErrorKind::usage,
                 who + " cannot be: ranks count from 0 to one below the world size; check RANK and WORLD_SIZE"};
  CASTOR_ASSIGN(auto device, make_cuda_device(ordinal));
  CASTOR_ASSIGN(auto token, Buffer::allocate(device->device_memory(), 1));
  ncclUniqueId unique;
  std::memcpy(&unique, id.bytes.data(), sizeof unique);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  leave_multicast_off(config);
  ncclComm_t comm = nullptr;
  CASTOR_TRY(nccl_result(ncclCommInitRankConfig(&comm, world_size, unique, rank, &config),
                         who + " joins on CUDA device " + std::to_string(ordinal), nullptr));
  return std::unique_ptr<Communicator>(
      std::make_unique<NcclCommunicator>(comm, rank, world_size, std::move(device), std::move(token)));
}

}  // namespace castor
