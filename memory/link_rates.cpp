// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/link_rates.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/statistics.h>

namespace castor {
namespace {

constexpr std::uint64_t kCopyBytes = 32 * kMiB;
constexpr std::size_t kMostCopies = 5;
constexpr std::uint64_t kEnoughNs = 40'000'000;

/// Bytes per second of `copy`, which moves kCopyBytes and returns when they have arrived.
Result<double> rate_of(const std::function<Result<void>()>& copy, const Clock& clock) {
  CASTOR_TRY(copy());
  std::vector<double> durations_ns;
  std::uint64_t spent_ns = 0;
  while (durations_ns.size() < kMostCopies && spent_ns < kEnoughNs) {
    const auto start_ns = clock();
    CASTOR_TRY(copy());
    const auto took_ns = std::max<std::uint64_t>(clock() - start_ns, 1);
    durations_ns.push_back(static_cast<double>(took_ns));
    spent_ns += took_ns;
  }
  return static_cast<double>(kCopyBytes) / (median(std::move(durations_ns), Middle::upper) * 1e-9);
}

/// A buffer of kCopyBytes whose pages are faulted in: a first touch inside a timed copy would measure the kernel, not
/// the link.
Result<Buffer> touched_buffer(MemoryResource& resource) {
  CASTOR_ASSIGN(auto buffer, Buffer::allocate(resource, kCopyBytes));
  std::memset(buffer.data(), 1, buffer.n_bytes());
  return buffer;
}

Result<double> host_copy_rate(const Clock& clock) {
  HostResource pages;
  CASTOR_ASSIGN(const auto source, touched_buffer(pages));
  CASTOR_ASSIGN(const auto target, touched_buffer(pages));
  const auto copy = [&]() -> Result<void> {
    std::memcpy(target.data(), source.data(), kCopyBytes);
    return {};
  };
  return rate_of(copy, clock);
}

}  // namespace

Result<LinkRates> calibrate_links(Device& device, const Clock& clock) {
  CASTOR_ASSIGN(const auto host, touched_buffer(device.host_memory()));
  CASTOR_ASSIGN(const auto there, Buffer::allocate(device.device_memory(), kCopyBytes));
  CASTOR_ASSIGN(const auto stream, device.make_stream());
  LinkRates rates;
  CASTOR_ASSIGN(rates.h2d, rate_of([&] { return stream->copy(there.data(), host.data(), kCopyBytes).wait(); }, clock));
  CASTOR_ASSIGN(rates.d2h, rate_of([&] { return stream->copy(host.data(), there.data(), kCopyBytes).wait(); }, clock));
  CASTOR_ASSIGN(rates.host_copy, host_copy_rate(clock));
  return rates;
}

}  // namespace castor
