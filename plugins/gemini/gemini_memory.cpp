// SPDX-License-Identifier: Apache-2.0
#include "gemini_memory.h"

#include "link_costs.h"

namespace castor {

Result<void*> HostTableResource::allocate(std::uint64_t n_bytes) {
  void* data = nullptr;
  const castor_status status = host_.device_alloc(host_.self, n_bytes, &data);
  if (status != CASTOR_OK) return failed_by_host(status);
  return data;
}

GeminiMemory::GeminiMemory(const castor_host_v1& host, const GeminiOptions& options, std::unique_ptr<Device> device)
    : device_(std::move(device)),
      link_costs_(castor::link_costs(*device_, options)),
      device_chunks_(Tier::device, options.device_budget_bytes),
      host_(Tier::host, options.host_budget_bytes),
      nvme_(Tier::nvme, options.nvme_budget_bytes),
      torch_memory_(host),
      limited_device_(on_gpu() ? static_cast<MemoryResource&>(torch_memory_) : device_->device_memory(),
                      device_chunks_),
      pooled_device_(limited_device_),
      limited_host_(device_->host_memory(), host_),
      pooled_host_(limited_host_) {}

Result<std::unique_ptr<GeminiMemory>> GeminiMemory::make(const castor_host_v1& host, const GeminiOptions& options) {
  const DLDevice where = host.device(host.self);
  std::unique_ptr<Device> device;
  if (where.device_type == kDLCPU) {
    device = make_cpu_device();
  } else {
    CASTOR_ASSIGN(device, make_cuda_device(where.device_id));
  }
  std::unique_ptr<GeminiMemory> memory(new GeminiMemory(host, options, std::move(device)));
  if (options.nvme_folders.empty()) return memory;
  TensorStoreOptions store;
  store.folders = options.nvme_folders;
  store.budget = &memory->nvme_;
  CASTOR_ASSIGN(memory->store_, TensorStore::open(store));
  for (const std::string& warning : memory->store_->warnings()) host.log(host.self, CASTOR_LOG_WARN, warning.c_str());
  memory->spill_ = std::make_unique<TensorStoreSpill>(*memory->store_);
  return memory;
}

}  // namespace castor
