// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include <castor/memory/stream.h>

namespace castor {

class CudaClock;
class CudaEvents;

/// What the streams of one GPU share.
struct CudaShared {
  std::shared_ptr<CudaClock> clock;  ///< relates the times at which events are reached to the host's
  std::shared_ptr<CudaEvents> events;
};

/// A CUDA stream, owned or borrowed.
class CudaStream final : public Stream {
 public:
  /// A new non-blocking stream of `ordinal`. Errors: failed.
  static Result<std::unique_ptr<Stream>> make(int ordinal, const CudaShared& shared);
  /// Wraps `stream` (null = the default stream), and destroys it at the end if `owned`.
  CudaStream(int ordinal, cudaStream_t stream, bool owned, CudaShared shared)
      : ordinal_(ordinal), stream_(stream), owned_(owned), shared_(std::move(shared)) {}
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Event copy(void* target, const void* source, std::uint64_t n_bytes) override;
  Result<void> wait(const Event& event) override;
  Event record() override;
  std::unique_ptr<StreamTime> time() override;
  Result<void> synchronize() override;
  void* native_handle() const override { return stream_; }

 private:
  /// Keeps the first failure until synchronize() reports it; returns `outcome`.
  Result<void> note(Result<void> outcome);
  /// Stands in for record() where CUDA gives no event: waits for the stream and returns an event that is reached.
  Event record_by_waiting(Result<void> failure);

  const int ordinal_;
  const cudaStream_t stream_;
  const bool owned_;
  const CudaShared shared_;
  Result<void> failure_;
};

}  // namespace castor
