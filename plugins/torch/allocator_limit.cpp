// SPDX-License-Identifier: Apache-2.0
#include "allocator_limit.h"

#include <castor/memory/budget.h>
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "allocator_share.h"
#include "device_memory.h"

namespace castor {
namespace {

/// The limits of all models in the process.
struct Limits {
  std::mutex mutex;
  std::map<std::pair<c10::DeviceIndex, const AllocatorLimit*>, std::uint64_t> by_model;
};

Limits& limits() {
  static Limits all;
  return all;
}

/// The largest of a device; unlimited where there is no model.
std::uint64_t largest(const Limits& all, c10::DeviceIndex device) {
  std::uint64_t most_bytes = 0;
  bool any = false;
  for (const auto& [model, n_bytes] : all.by_model)
    if (model.first == device) most_bytes = std::max(most_bytes, n_bytes), any = true;
  return any ? most_bytes : Budget::kUnlimited;
}

void apply(std::uint64_t n_bytes, c10::DeviceIndex device) {
  const castor_device_memory now = device_memory(c10::Device(c10::kCUDA, device));
  if (now.total == 0) return;  // the allocator has not been used
  if (now.reserved > n_bytes) at::accelerator::emptyCache();
  set_allocator_share(allocator_share(n_bytes, now.total), device);
}

}  // namespace

AllocatorLimit::AllocatorLimit(c10::Device device) : device_(device) { set(Budget::kUnlimited); }

AllocatorLimit::~AllocatorLimit() { change(std::nullopt); }

void AllocatorLimit::set(std::uint64_t n_bytes) { change(n_bytes); }

/// None: the model is gone.
void AllocatorLimit::change(std::optional<std::uint64_t> n_bytes) {
  if (!device_.is_cuda()) return;
  const std::lock_guard lock(limits().mutex);
  auto& by_model = limits().by_model;
  const std::pair key(device_.index(), static_cast<const AllocatorLimit*>(this));
  by_model.erase(key);
  if (n_bytes) by_model.emplace(key, *n_bytes);
  (void)guard([&] { apply(largest(limits(), device_.index()), device_.index()); });
}

}  // namespace castor
