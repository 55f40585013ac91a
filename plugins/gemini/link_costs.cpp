// SPDX-License-Identifier: Apache-2.0
#include "link_costs.h"

#include <castor/io/store_rates.h>
#include <castor/memory/link_rates.h>

namespace castor {

LinkCosts link_costs(Device& device, const GeminiOptions& options) {
  LinkCosts costs = kUsualLinkCosts;
  if (device.kind() != DeviceKind::cuda) return costs;
  if (const auto rates = calibrate_links(device); rates.ok()) {
    costs.h2d = 1 / rates->h2d;
    costs.d2h = 1 / rates->d2h;
  }
  if (options.nvme_folders.empty()) return costs;
  Budget budget(Tier::nvme, options.nvme_budget_bytes);
  TensorStoreOptions store;
  store.folders = options.nvme_folders;
  store.budget = &budget;
  if (const auto rates = calibrate_store(store); rates.ok()) {
    costs.nvme_read = 1 / rates->read;
    costs.nvme_write = 1 / rates->write;
    costs.nvme_share = rates->share();
  }
  return costs;
}

}  // namespace castor
