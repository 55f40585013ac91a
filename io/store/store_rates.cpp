// SPDX-License-Identifier: Apache-2.0
#include <castor/io/store_rates.h>

#include <algorithm>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/clock.h>
#include <castor/memory/host_resource.h>

namespace castor {
namespace {

constexpr std::uint64_t kValueBytes = 32 << 20;
constexpr std::uint64_t kNValues = 8;

/// Bytes per second of `transfer`, started for every value and then waited for.
template <typename Transfer>
Result<double> rate_of(const Transfer& transfer) {
  const std::uint64_t start_ns = steady_now_ns();
  std::vector<Event> events;
  for (std::uint64_t key = 0; key < kNValues; ++key) events.push_back(transfer(key));
  for (const Event& event : events)
    CASTOR_TRY(event.wait());  // after an error the store's destructor waits for the rest, before that of the buffer
  return static_cast<double>(kNValues * kValueBytes) / (static_cast<double>(steady_now_ns() - start_ns) * 1e-9);
}

}  // namespace

double StoreRates::share() const { return std::clamp((2 / both) / (1 / read + 1 / write), 0.0, 1.0); }

Result<StoreRates> calibrate_store(const TensorStoreOptions& options) {
  HostResource memory;
  CASTOR_ASSIGN(const Buffer buffer, Buffer::allocate(memory, kNValues * kValueBytes));
  CASTOR_ASSIGN(const auto store, TensorStore::open(options));
  const auto value = [&buffer](std::uint64_t key) { return buffer.view().part(key * kValueBytes, kValueBytes); };
  const auto put = [&](std::uint64_t key) { return store->put(key, value(key)); };
  const auto get = [&](std::uint64_t key) { return store->get(key, value(key)); };
  CASTOR_TRY(rate_of(put));  // not measured: the file system sets the room aside
  StoreRates rates;
  CASTOR_ASSIGN(rates.write, rate_of(put));
  CASTOR_ASSIGN(rates.read, rate_of(get));
  CASTOR_ASSIGN(rates.both, rate_of([&](std::uint64_t key) { return key % 2 == 0 ? get(key) : put(key); }));
  return rates;
}

}  // namespace castor
