// SPDX-License-Identifier: Apache-2.0
#include "train/rates.h"

#include <chrono>

#include <castor/io/tensor_store.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/link_rates.h>

namespace castor::train {
namespace {

constexpr std::uint64_t kValueBytes = 32 << 20;
constexpr std::uint64_t kNValues = 8;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool used(const TrainRecord& record, Link link) { return record.last.moved_bytes[index(link)] > 0; }

void measure_device(DeviceKind kind, Rates& rates) {
  auto device = kind == DeviceKind::cpu ? Result<std::unique_ptr<Device>>(make_cpu_device()) : make_cuda_device(0);
  if (!device) return;
  const auto measured = calibrate_links(**device);
  if (!measured) return;
  rates[index(Link::h2d)] = measured->h2d;
  rates[index(Link::d2h)] = measured->d2h;
}

/// Bytes per second of `transfer`, started for every value and then waited for.
template <typename Transfer>
Result<double> rate_of(const Transfer& transfer) {
  const double start_s = now_s();
  std::vector<Event> events;
  for (std::uint64_t key = 0; key < kNValues; ++key) events.push_back(transfer(key));
  for (const Event& event : events)
    CASTOR_TRY(event.wait());  // the store itself waits for the rest before the buffer goes
  return static_cast<double>(kNValues * kValueBytes) / (now_s() - start_s);
}

Result<void> measure_nvme(const std::vector<std::filesystem::path>& folders, Rates& rates) {
  TensorStoreOptions options;
  for (const auto& folder : folders) options.folders.push_back(folder.string());
  options.checksums = false;
  HostResource memory;
  CASTOR_ASSIGN(const Buffer buffer, Buffer::allocate(memory, kNValues * kValueBytes));
  CASTOR_ASSIGN(const auto store, TensorStore::open(options));
  const auto value = [&buffer](std::uint64_t key) { return buffer.view().part(key * kValueBytes, kValueBytes); };
  const auto put = [&](std::uint64_t key) { return store->put(key, value(key)); };
  const auto get = [&](std::uint64_t key) { return store->get(key, value(key)); };
  CASTOR_TRY(rate_of(put));  // the first time the file system sets the room aside
  CASTOR_ASSIGN(rates[index(Link::nvme_write)], rate_of(put));
  CASTOR_ASSIGN(rates[index(Link::nvme_read)], rate_of(get));
  return {};
}

}  // namespace

Rates measure_rates(const TrainRecord& record, DeviceKind device, const std::vector<std::filesystem::path>& folders) {
  Rates rates;
  if (used(record, Link::h2d) || used(record, Link::d2h)) measure_device(device, rates);
  const bool nvme_used = used(record, Link::nvme_read) || used(record, Link::nvme_write);
  if (nvme_used && !folders.empty())
    (void)measure_nvme(folders, rates).ok();  // a drive that fails now leaves its rates out
  return rates;
}

}  // namespace castor::train
