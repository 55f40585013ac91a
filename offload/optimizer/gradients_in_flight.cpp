// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/gradients_in_flight.h>

#include <chrono>
#include <utility>

#include <castor/memory/bytes.h>

namespace castor {

GradientsInFlight::~GradientsInFlight() {
  for (const Gradient& gradient : gradients_) {
    (void)gradient.read.wait();
    if (gradient.free) gradient.free();
  }
}

GradientsInFlight::Gradient& GradientsInFlight::add(Gradient gradient) {
  n_bytes_ += gradient.n_bytes;
  gradients_.push_back(std::move(gradient));
  return gradients_.back();
}

/// The chunk's arrival, for which the update waits, carries the outcome of reading a gradient.
void GradientsInFlight::wait_for_last() {
  (void)gradients_.back().read.wait();
  n_bytes_ -= gradients_.back().n_bytes;
  gradients_.pop_back();
}

void GradientsInFlight::free_oldest() {
  gradients_.front().free();
  n_bytes_ -= gradients_.front().n_bytes;
  gradients_.pop_front();
}

void GradientsInFlight::free_read() {
  while (!gradients_.empty() && gradients_.front().read.ready()) free_oldest();
}

Result<void> GradientsInFlight::free_bytes(std::uint64_t n_bytes) {
  const std::uint64_t left_bytes = saturating_sub(n_bytes_, n_bytes);
  free_read();
  while (n_bytes_ > left_bytes) {
    const Event& read = gradients_.front().read;
    const auto within = [&read](std::chrono::nanoseconds limit) { return read.wait_for(limit); };
    CASTOR_TRY(mover_.join_host(within, "a gradient to leave the device"));
    free_oldest();
  }
  return {};
}

}  // namespace castor
