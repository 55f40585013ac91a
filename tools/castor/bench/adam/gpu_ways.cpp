// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/gpu_ways.h"

#include "bench/adam/adam_memory.h"

namespace castor::bench {
namespace {

constexpr int kQueuedAtOnce = 16;

}  // namespace

Result<std::unique_ptr<GpuWays>> GpuWays::make(Device& device, const UpdateArrays& host) {
  std::unique_ptr<GpuWays> ways(new GpuWays);
  CASTOR_ASSIGN(ways->stream_, device.make_stream());
  CASTOR_ASSIGN(ways->kernel_, make_adam(device));
  CASTOR_ASSIGN(ways->states_, Buffer::allocate(device.device_memory(), 16 * host.n));
  CASTOR_ASSIGN(ways->target_, Buffer::allocate(device.device_memory(), kBytesPerElement / 2 * host.n));
  CASTOR_TRY(ways->upload(host));
  return ways;
}

/// The arrays follow one another, each at a multiple of the element grain.
Result<void> GpuWays::upload(const UpdateArrays& host) {
  std::byte* next = states_.data();
  const auto put = [&](const void* source, std::uint64_t n_bytes) {
    std::byte* const place = next;
    next += n_bytes;
    (void)stream_->copy(place, source, n_bytes);  // a failure stays in the stream
    return place;
  };
  arrays_ = host;
  arrays_.master = reinterpret_cast<float*>(put(host.master, 4 * host.n));
  arrays_.exp_avg = reinterpret_cast<float*>(put(host.exp_avg, 4 * host.n));
  arrays_.exp_avg_sq = reinterpret_cast<float*>(put(host.exp_avg_sq, 4 * host.n));
  arrays_.grad = put(host.grad, 2 * host.n);
  arrays_.weight = put(host.weight, 2 * host.n);
  return stream_->synchronize();
}

Result<std::uint64_t> GpuWays::several(const std::function<Result<void>()>& queue_one) {
  for (int i = 0; i < kQueuedAtOnce; ++i) CASTOR_TRY(queue_one());
  CASTOR_TRY(stream_->synchronize());
  return kQueuedAtOnce * kBytesPerElement * arrays_.n;
}

Way GpuWays::update() {
  return {"castor", [this] {
            return several([this] {
              return kernel_->update(*stream_, adam_coefficients({.lr = 1e-4, .weight_decay = 0.1}, 10, 1), arrays_);
            });
          }};
}

Way GpuWays::copy() {
  return {"a copy inside the GPU's memory", [this] {
            return several([this]() -> Result<void> {
              (void)stream_->copy(target_.data(), states_.data(), target_.n_bytes());
              return {};
            });
          }};
}

}  // namespace castor::bench
