// SPDX-License-Identifier: Apache-2.0
#include "train/rates.h"

#include <castor/io/store_rates.h>
#include <castor/memory/link_rates.h>

namespace castor::train {
namespace {

bool used(const TrainRecord& record, Link link) { return record.last.moved_bytes[index(link)] > 0; }

void measure_device(DeviceKind kind, Rates& rates) {
  auto device = kind == DeviceKind::cpu ? Result<std::unique_ptr<Device>>(make_cpu_device()) : make_cuda_device(0);
  if (!device) return;
  const auto measured = calibrate_links(**device);
  if (!measured) return;
  rates[index(Link::h2d)] = measured->h2d;
  rates[index(Link::d2h)] = measured->d2h;
}

void measure_nvme(const std::vector<std::filesystem::path>& folders, Rates& rates) {
  TensorStoreOptions options;
  for (const auto& folder : folders) options.folders.push_back(folder.string());
  options.checksums = false;
  const auto measured = calibrate_store(options);
  if (!measured) return;  // leaves the rates empty if the drive fails now
  rates[index(Link::nvme_read)] = measured->read;
  rates[index(Link::nvme_write)] = measured->write;
}

}  // namespace

Rates measure_rates(const TrainRecord& record, DeviceKind device, const std::vector<std::filesystem::path>& folders) {
  Rates rates;
  if (used(record, Link::h2d) || used(record, Link::d2h)) measure_device(device, rates);
  const bool nvme_used = used(record, Link::nvme_read) || used(record, Link::nvme_write);
  if (nvme_used && !folders.empty()) measure_nvme(folders, rates);
  return rates;
}

}  // namespace castor::train
