// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <castor/io/tensor_store.h>
#include <castor/memory/budget.h>
#include <castor/memory/device.h>
#include <castor/memory/limited_resource.h>
#include <castor/memory/paged_pool.h>
#include <castor/memory/pool_resource.h>
#include <castor/plan/links.h>
#include <castor/states/slot_pages.h>
#include <castor/states/tensor_store_spill.h>
#include <castor/plugins/model_host.h>

#include <castor/engine/machine.h>

namespace castor {

/// Device memory from the allocator that the model's own tensors come from.
class ModelsMemory final : public MemoryResource {
 public:
  /// `budget_bytes`: of the device, as the user has stated it.
  ModelsMemory(ModelHost& host, std::uint64_t budget_bytes) : host_(host), budget_bytes_(budget_bytes) {}
  /// Errors: those of the host; where it has no room under the budget, how much would do. Requires, as deallocate: the
  /// device is not the host.
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override {
    host_.device_memory()->deallocate(data, n_bytes);
  }
  void limit(std::uint64_t n_bytes);

 private:
  ModelHost& host_;
  const std::uint64_t budget_bytes_;
  std::uint64_t limit_bytes_ = Budget::kUnlimited;  ///< of the allocator
};

/// Slots in whole pages of `own`, so that they leave no holes. Small slots, and where there are no pages all slots, come
/// from the allocator `upstream`, and `taken` counts those.
class DeviceSlots final : public MemoryResource {
 public:
  /// All are borrowed. All slots come from `upstream` until lie_in() is called.
  DeviceSlots(MemoryResource& upstream, Budget& taken) : taken_(upstream, taken) {}
  void lie_in(PagedPool& own) { own_ = &own; }
  Result<void*> allocate(std::uint64_t n_bytes) override { return source_of(n_bytes).allocate(n_bytes); }
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override { source_of(n_bytes).deallocate(data, n_bytes); }

 private:
  MemoryResource& source_of(std::uint64_t n_bytes) {
    const bool in_pages = own_ != nullptr && lies_in_pages(n_bytes, own_->page_bytes());
    return in_pages ? static_cast<MemoryResource&>(*own_) : taken_;
  }

  LimitedResource taken_;
  PagedPool* own_ = nullptr;
};

/// The memory of the three tiers, each under its budget.
///
/// On a GPU the device budget covers all that torch reserves too, so `device_chunks`, the chunks' part of it, starts
/// small and is set after the rest has been measured (give_chunks). A device that is the host holds chunks alone, and
/// freed blocks are kept for reuse.
class EngineMemory {
 public:
  /// Errors: those of the device and of the store.
  static Result<std::unique_ptr<EngineMemory>> make(ModelHost& host, const EngineOptions& options,
                                                    const Machine& machine);

  /// `device_budget_bytes`, or on a GPU the bytes that are available now, if these are fewer: its free part and
  /// torch's, less a 64th of its memory, into which libraries load their kernels at their first use. Warns if more was
  /// asked for.
  std::uint64_t within_capacity(ModelHost& host, std::uint64_t device_budget_bytes);
  /// Host memory that speculative updates may take: the rest of the budget; without a budget, half of the memory that
  /// is available.
  std::uint64_t speculation_bytes() const;

  /// Warns if the tiers will take more host memory under `placement` than the process can take now.
  void check_host(ModelHost& host, const StatePlacement& placement) const;

  Device& device() { return *device_; }
  bool on_gpu() const { return device_->kind() == DeviceKind::cuda; }
  /// The model computes on `compute`, whose work uses slots. Borrowed.
  void follow(Stream& compute) { compute_ = &compute; }
  /// Makes the slots of pages that suit `slots`, where the device has pages. Requires: no slot has been made.
  void lay_pages_for(const SlotSizes& slots);
  /// Chunks take up to `room_bytes` of the device from now on. The allocator of the model's tensors is limited to the
  /// budget, and to the rest of it where chunks lie in pages of their own, `padding_bytes` of which are lost.
  void give_chunks(std::uint64_t room_bytes, std::uint64_t padding_bytes, std::uint64_t device_budget_bytes);
  /// Bytes of the pages that slots are made of; 0 where there are none.
  std::uint64_t page_bytes() const { return own_pages_ ? own_pages_->page_bytes() : 0; }
  /// Bytes of the device's memory beside its allocator's.
  std::uint64_t own_bytes() const { return own_pages_ ? own_pages_->held_bytes() : 0; }
  MemoryResource& device_slots() { return on_gpu() ? static_cast<MemoryResource&>(limited_device_) : pooled_device_; }
  MemoryResource& host_buffers() { return pooled_host_; }
  PoolResource& host_pool() { return pooled_host_; }
  /// The tier below the host; null where there is none.
  SpillStore* spill() { return drive_ ? drive_.get() : spill_.get(); }
  /// The same over store(); null where there is no store.
  TensorStoreSpill* store_spill() { return spill_.get(); }
  TensorStore* store() { return store_.get(); }
  Budget& device_chunks() { return device_chunks_; }
  /// Bytes of chunks on the device; on a GPU those from torch's allocator, with the padding that it adds.
  const Budget& taken_by_chunks() const { return on_gpu() ? taken_ : device_chunks_; }
  Budget& host_budget() { return host_; }
  const Budget& nvme_budget() const { return nvme_; }
  /// Tells errors of the NVMe budget what would do: `n_bytes` may come to lie there.
  void expect_on_nvme(std::uint64_t n_bytes) { nvme_.set_enough_bytes(n_bytes); }
  const LinkCosts& link_costs() const { return link_costs_; }

 private:
  EngineMemory(ModelHost& host, const EngineOptions& options, const Machine& machine, std::unique_ptr<Device> device);

  const std::function<LimitedBytes()> available_host_;
  const std::unique_ptr<Device> device_;
  const LinkCosts link_costs_;
  Budget device_chunks_, taken_, host_, nvme_;
  ModelsMemory models_memory_;
  Stream* compute_ = nullptr;
  std::unique_ptr<PagedPool> own_pages_;  ///< null: none
  DeviceSlots slots_;
  LimitedResource limited_device_;
  PoolResource pooled_device_;
  LimitedResource limited_host_;
  PoolResource pooled_host_;
  std::unique_ptr<TensorStore> store_;
  std::unique_ptr<TensorStoreSpill> spill_;
  std::unique_ptr<SpillStore> drive_;  ///< in place of a store
};

}  // namespace castor
