// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/bus_traffic.h"

#include <cstring>

namespace castor::bench {

Result<std::unique_ptr<BusTraffic>> BusTraffic::make(Device& device, std::uint64_t buffer_bytes, std::size_t n_ahead) {
  std::unique_ptr<BusTraffic> traffic(new BusTraffic(buffer_bytes, n_ahead));
  auto& [up, down] = traffic->directions_;
  CASTOR_ASSIGN(up.source, Buffer::allocate(device.host_memory(), buffer_bytes));
  CASTOR_ASSIGN(up.target, Buffer::allocate(device.device_memory(), buffer_bytes));
  CASTOR_ASSIGN(down.source, Buffer::allocate(device.device_memory(), buffer_bytes));
  CASTOR_ASSIGN(down.target, Buffer::allocate(device.host_memory(), buffer_bytes));
  std::memset(up.source.data(), 1, buffer_bytes);  // touches the pages before the timing starts
  std::memset(down.target.data(), 1, buffer_bytes);
  for (Direction& direction : traffic->directions_) {
    CASTOR_ASSIGN(direction.stream, device.make_stream());
  }
  return traffic;
}

void BusTraffic::feed() {
  count_ended();
  for (auto& [stream, source, target, ends] : directions_)
    while (ends.size() < n_ahead_) ends.push_back(stream->copy(target.data(), source.data(), buffer_bytes_));
}

std::uint64_t BusTraffic::moved_bytes() {
  count_ended();
  return moved_bytes_;
}

Result<void> BusTraffic::stop() {
  Result<void> outcome;
  for (Direction& direction : directions_)
    if (direction.stream)
      if (auto ended = direction.stream->synchronize(); outcome.ok()) outcome = std::move(ended);
  count_ended();
  return outcome;
}

void BusTraffic::count_ended() {
  for (Direction& direction : directions_)
    for (; !direction.ends.empty() && direction.ends.front().ready(); direction.ends.pop_front())
      moved_bytes_ += buffer_bytes_;
}

}  // namespace castor::bench
