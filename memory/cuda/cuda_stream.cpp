// SPDX-License-Identifier: Apache-2.0
#include "cuda_stream.h"

#include <utility>

#include "cuda_error.h"
#include "cuda_event.h"
#include "cuda_events.h"
#include "device_guard.h"

namespace castor {
namespace {

/// A time by the device's clock, to half a microsecond.
class CudaTime final : public StreamTime {
 public:
  explicit CudaTime(cudaStream_t stream) {
    status_ = cudaEventCreate(&event_);
    if (status_ == cudaSuccess) status_ = cudaEventRecord(event_, stream);
  }
  ~CudaTime() override {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  CudaTime(const CudaTime&) = delete;
  CudaTime& operator=(const CudaTime&) = delete;

  Result<double> seconds_since(const StreamTime& earlier) const override {
    const auto* begin = dynamic_cast<const CudaTime*>(&earlier);
    if (!begin) throw ContractViolation("CudaTime: compared with the time of another kind of stream");
    CASTOR_TRY(cuda_result(status_, "noting a CUDA stream's time"));
    CASTOR_TRY(cuda_result(begin->status_, "noting a CUDA stream's time"));
    CASTOR_TRY(cuda_result(cudaEventSynchronize(event_), "waiting for a CUDA stream's time"));
    float ms = 0;
    CASTOR_TRY(cuda_result(cudaEventElapsedTime(&ms, begin->event_, event_), "reading a CUDA stream's time"));
    return static_cast<double>(ms) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
  cudaError_t status_;
};

}  // namespace

Result<std::unique_ptr<Stream>> CudaStream::make(int ordinal, const CudaShared& shared) {
  const DeviceGuard guard(ordinal);
  cudaStream_t stream = nullptr;
  CASTOR_TRY(cuda_result(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a CUDA stream"));
  return std::unique_ptr<Stream>(std::make_unique<CudaStream>(ordinal, stream, true, shared));
}

CudaStream::~CudaStream() {
  if (!owned_) return;
  (void)cudaStreamSynchronize(stream_);
  (void)cudaStreamDestroy(stream_);
}

Result<void> CudaStream::note(Result<void> outcome) {
  if (failure_.ok()) failure_ = outcome;
  return outcome;
}

Event CudaStream::copy(void* target, const void* source, std::uint64_t n_bytes) {
  const DeviceGuard guard(ordinal_);
  if (failure_.ok())
    (void)note(cuda_result(cudaMemcpyAsync(target, source, n_bytes, cudaMemcpyDefault, stream_),
                           "copying " + std::to_string(n_bytes) + " bytes"));
  return record();
}

Result<void> CudaStream::wait(const Event& event) {
  const auto* cuda = dynamic_cast<const CudaEventState*>(event.state());
  if (!cuda) return note(event.wait());
  const DeviceGuard guard(ordinal_);
  (void)note(cuda->failure());
  if (cuda->known_reached()) return {};
  return note(cuda_result(cudaStreamWaitEvent(stream_, cuda->event(), 0), "waiting for another CUDA stream"));
}

Event CudaStream::record() {
  const DeviceGuard guard(ordinal_);
  auto event = shared_.events->take();
  if (!event.ok()) return record_by_waiting(event.error());
  auto state = std::make_shared<CudaEventState>(*event, shared_.events, stream_, failure_, shared_.clock);
  auto recorded = cuda_result(cudaEventRecord(*event, stream_), "recording a CUDA event");
  return recorded.ok() ? Event(std::move(state)) : record_by_waiting(std::move(recorded));
}

Event CudaStream::record_by_waiting(Result<void> failure) {
  (void)note(std::move(failure));
  (void)cudaStreamSynchronize(stream_);
  auto state = std::make_shared<HostEventState>();
  state->complete(failure_);
  return Event(std::move(state));
}

std::unique_ptr<StreamTime> CudaStream::time() {
  const DeviceGuard guard(ordinal_);
  return std::make_unique<CudaTime>(stream_);
}

Result<void> CudaStream::synchronize() {
  const DeviceGuard guard(ordinal_);
  auto outcome = cuda_result(cudaStreamSynchronize(stream_), "waiting for a CUDA stream");
  auto earlier = std::exchange(failure_, {});
  return earlier.ok() ? outcome : earlier;
}

}  // namespace castor
