// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include <castor/memory/stream.h>

namespace castor {

class CudaClock;

/// A CUDA stream, owned or borrowed. Its events know when they were reached, by `clock`, that of the device.
class CudaStream final : public Stream {
 public:
  /// A new non-blocking stream of `ordinal`. Errors: failed.
  static Result<std::unique_ptr<Stream>> make(int ordinal, std::shared_ptr<CudaClock> clock);
  /// Around a stream that somebody else owns (null = the default stream).
  CudaStream(int ordinal, cudaStream_t stream, bool owned, std::shared_ptr<CudaClock> clock)
      : ordinal_(ordinal), stream_(stream), owned_(owned), clock_(std::move(clock)) {}
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
  /// Keeps the first failure until synchronize() reports it; hands the outcome on.
  Result<void> note(Result<void> outcome);
  /// The event of everything queued so far where CUDA gives none: waits on the spot.
  Event record_by_waiting(Result<void> failure);

  const int ordinal_;
  const cudaStream_t stream_;
  const bool owned_;
  const std::shared_ptr<CudaClock> clock_;  // owners: the device and its streams
  Result<void> failure_;
};

}  // namespace castor
