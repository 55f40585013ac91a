// SPDX-License-Identifier: Apache-2.0
#include "engine_memory.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

#include <castor/memory/bytes.h>
#include <castor/memory/shortage.h>
#include <castor/states/model_chunks.h>

namespace castor {
namespace {

void warn(ModelHost& host, const std::string& sentence) { host.log(CASTOR_LOG_WARN, sentence.c_str()); }

Error of_option(Error error, const char* option) {
  if (error.option.empty()) error.option = option;
  return error;
}

/// What torch's allocator takes of its limit for a block of `n_bytes` (get_allocation_size in CUDACachingAllocator.cpp).
std::uint64_t counted_bytes(std::uint64_t n_bytes) {
  if (n_bytes > kMiB && n_bytes < 10 * kMiB) return kAllocatorSegmentBytes;
  return align_up(n_bytes, 2 * kMiB);
}

}  // namespace

void ModelsMemory::limit(std::uint64_t n_bytes) {
  limit_bytes_ = n_bytes;
  host_.device_memory()->limit(n_bytes);
}

Result<void*> ModelsMemory::allocate(std::uint64_t n_bytes) {
  auto made = host_.device_memory()->allocate(n_bytes);
  if (made.ok() || made.error().kind != ErrorKind::does_not_fit || budget_bytes_ == Budget::kUnlimited) return made;
  const auto now = host_.device_memory()->memory();
  if (!now.ok()) return made;
  const std::uint64_t wanted_bytes = now->reserved + counted_bytes(n_bytes) + kAllocatorSegmentBytes;
  if (wanted_bytes <= limit_bytes_) return made;  // the GPU is full
  const std::uint64_t enough_bytes = budget_bytes_ + (wanted_bytes - limit_bytes_);
  return does_not_fit({Tier::device, enough_bytes, budget_bytes_},
                      "device tier: chunks need " + format_bytes(n_bytes) +
                          " more, and the model's other tensors leave less of the budget of " +
                          format_bytes(budget_bytes_) + "; raise `device_budget` to " + format_bytes_up(enough_bytes) +
                          " or more, lower `batch` or use `recompute`");
}

EngineMemory::EngineMemory(ModelHost& host, const EngineOptions& options, const Machine& machine,
                           std::unique_ptr<Device> device)
    : available_host_(machine.available_host),
      device_(std::move(device)),
      link_costs_(machine.link_costs(*device_, options)),
      device_chunks_(Tier::device, options.device_budget_bytes),
      taken_(Tier::device, Budget::kUnlimited),
      host_(Tier::host, options.host_budget_bytes),
      nvme_(Tier::nvme, options.nvme_budget_bytes),
      models_memory_(host, options.device_budget_bytes),
      slots_(models_memory_, taken_),
      limited_device_(on_gpu() ? static_cast<MemoryResource&>(slots_) : device_->device_memory(), device_chunks_),
      pooled_device_(limited_device_),
      limited_host_(device_->host_memory(), host_),
      pooled_host_(limited_host_) {}

Result<std::unique_ptr<EngineMemory>> EngineMemory::make(ModelHost& host, const EngineOptions& options,
                                                         const Machine& machine) {
  CASTOR_ASSIGN(auto device, machine.make_device(host.device()));
  std::unique_ptr<EngineMemory> memory(new EngineMemory(host, options, machine, std::move(device)));
  if (machine.make_drive) memory->drive_ = machine.make_drive(memory->nvme_);
  if (memory->drive_ || options.nvme_folders.empty()) return memory;
  TensorStoreOptions store;
  store.folders = options.nvme_folders;
  store.budget = &memory->nvme_;
  store.durability = options.durability;
  // Ends waits within the store as well, of commits and of removals, which look at no limit of their own.
  store.timeout = std::chrono::ceil<std::chrono::milliseconds>(options.io_timeout);
  auto opened = machine.open_store(store);
  if (!opened.ok()) return of_option(opened.error(), "nvme");
  memory->store_ = std::move(*opened);
  for (const std::string& warning : memory->store_->warnings()) warn(host, warning);
  memory->spill_ = std::make_unique<TensorStoreSpill>(
      *memory->store_, options.durability == Durability::scratch ? &memory->nvme_ : nullptr);
  return memory;
}

void EngineMemory::lay_pages_for(const SlotSizes& slots) {
  PageSource* const pages = on_gpu() ? device_->pages() : nullptr;
  if (pages == nullptr) return;
  own_pages_ = std::make_unique<PagedPool>(*pages, best_page_bytes(slots, pages->grain_bytes()),
                                           [this] { return compute_ ? compute_->record() : Event(); });
  slots_.lie_in(*own_pages_);
}

void EngineMemory::give_chunks(std::uint64_t room_bytes, std::uint64_t padding_bytes,
                               std::uint64_t device_budget_bytes) {
  device_chunks_.set_limit(room_bytes);
  if (!on_gpu()) return;
  if (device_budget_bytes != Budget::kUnlimited)
    device_chunks_.set_others_bytes(saturating_sub(device_budget_bytes, room_bytes));
  const std::uint64_t own_bytes = own_pages_ ? std::max(room_bytes + padding_bytes, own_pages_->held_bytes()) : 0;
  models_memory_.limit(saturating_sub(device_budget_bytes, own_bytes));
}

std::uint64_t EngineMemory::within_capacity(ModelHost& host, std::uint64_t device_budget_bytes) {
  if (!on_gpu()) return device_budget_bytes;
  const auto models = host.device_memory()->memory();
  if (!models.ok()) return device_budget_bytes;
  const std::uint64_t there_bytes = device_->free_memory_bytes() + models->reserved;
  const std::uint64_t left_bytes = std::min(there_bytes, device_->total_memory_bytes() / 64);
  const std::uint64_t capacity_bytes = there_bytes - left_bytes;
  if (device_budget_bytes <= capacity_bytes) return device_budget_bytes;
  if (device_budget_bytes != Budget::kUnlimited)
    warn(host, "`device_budget` " + format_bytes(device_budget_bytes) + " is more than the " +
                   format_bytes(capacity_bytes) + " that the GPU can give now; it is taken as that");
  return capacity_bytes;
}

std::uint64_t EngineMemory::speculation_bytes() const {
  return host_.limit_bytes() == Budget::kUnlimited ? available_host_().n_bytes / 2 : Budget::kUnlimited;
}

/// A device that is the host takes its chunks from the same memory.
void EngineMemory::check_host(ModelHost& host, const StatePlacement& placement) const {
  const std::uint64_t host_bytes = placement.host_bytes + (on_gpu() ? 0 : placement.device_bytes);
  const bool stated =
      host_.limit_bytes() != Budget::kUnlimited && (on_gpu() || device_chunks_.limit_bytes() != Budget::kUnlimited);
  const LimitedBytes available = available_host_();
  if (available.fits(host_bytes)) return;
  warn(host, "up to " + format_bytes(host_bytes) + " will be on the host, more than " + text_of_available(available) +
                 (stated ? "; lower " : "; state ") + (on_gpu() ? "" : "`device_budget` and ") +
                 "`host_budget`, and name a folder with `nvme` for the rest");
}

}  // namespace castor
