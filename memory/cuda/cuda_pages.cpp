// SPDX-License-Identifier: Apache-2.0
#include "cuda_pages.h"

#include <cuda_runtime_api.h>

#include <string>

#include <castor/memory/bytes.h>
#include <castor/memory/shortage.h>

#include "device_guard.h"

namespace castor {
namespace {

/// Of the driver's interface: that which brought the functions below.
constexpr unsigned kInterface = 11000;

template <typename Function>
void find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const auto status = cudaGetDriverEntryPointByVersion(name, &found, kInterface, cudaEnableDefault, &result);
  (void)cudaGetLastError();
  function =
      status == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(found) : nullptr;
}

CUmemAllocationProp pages_of(int ordinal) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  return properties;
}

CUmemGenericAllocationHandle handle_of(PageSource::Page page) {
  return static_cast<CUmemGenericAllocationHandle>(page);
}

CUdeviceptr address_of(void* data) { return reinterpret_cast<CUdeviceptr>(data); }

}  // namespace

bool CudaPages::Driver::found() const {
  return granularity && reserve && free && create && release && map && unmap && set_access;
}

CudaPages::Driver CudaPages::find_driver() {
  Driver driver;
  find("cuMemGetAllocationGranularity", driver.granularity);
  find("cuMemAddressReserve", driver.reserve);
  find("cuMemAddressFree", driver.free);
  find("cuMemCreate", driver.create);
  find("cuMemRelease", driver.release);
  find("cuMemMap", driver.map);
  find("cuMemUnmap", driver.unmap);
  find("cuMemSetAccess", driver.set_access);
  return driver;
}

CudaPages::CudaPages(int ordinal, const Driver& driver)
    : ordinal_(ordinal), driver_(driver), of_pages_(pages_of(ordinal)) {}

/// Whether pages can be mapped is found out by mapping one.
std::unique_ptr<CudaPages> CudaPages::make(int ordinal) {
  const DeviceGuard guard(ordinal);
  const Driver driver = find_driver();
  if (!driver.found()) return nullptr;
  std::unique_ptr<CudaPages> pages(new CudaPages(ordinal, driver));
  std::size_t grain_bytes = 0;
  if (driver.granularity(&grain_bytes, &pages->of_pages_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS)
    return nullptr;
  pages->grain_bytes_ = grain_bytes;
  const auto page = pages->create(grain_bytes);
  if (!page.ok()) return nullptr;
  const auto data = pages->map({&*page, 1}, grain_bytes);
  if (data.ok()) pages->unmap(*data, grain_bytes);
  pages->destroy(*page);
  return data.ok() ? std::move(pages) : nullptr;
}

Result<PageSource::Page> CudaPages::create(std::uint64_t page_bytes) {
  const DeviceGuard guard(ordinal_);
  CUmemGenericAllocationHandle handle{};
  if (driver_.create(&handle, page_bytes, &of_pages_, 0) == CUDA_SUCCESS) return Page{handle};
  std::size_t free_bytes = 0, total_bytes = 0;
  (void)cudaMemGetInfo(&free_bytes, &total_bytes);
  return does_not_fit({Tier::device, page_bytes, free_bytes},
                      "device tier: the GPU has no page of " + format_bytes(page_bytes) + " more, " +
                          format_bytes(free_bytes) + " free of " + format_bytes(total_bytes) +
                          "; lower `device_budget` or the batch");
}

void CudaPages::destroy(Page page) noexcept { (void)driver_.release(handle_of(page)); }

Result<void*> CudaPages::map(std::span<const Page> pages, std::uint64_t page_bytes) {
  const DeviceGuard guard(ordinal_);
  CUdeviceptr data{};
  const std::uint64_t n_bytes = pages.size() * page_bytes;
  if (driver_.reserve(&data, n_bytes, 0, 0, 0) != CUDA_SUCCESS)
    return Error{ErrorKind::does_not_fit, "device tier: no addresses for " + format_bytes(n_bytes)};
  const auto mapped = map_at(data, pages, page_bytes);
  if (mapped.ok()) return reinterpret_cast<void*>(data);
  (void)driver_.free(data, n_bytes);
  return mapped.error();
}

/// Errors: does_not_fit; then nothing is mapped.
Result<void> CudaPages::map_at(CUdeviceptr data, std::span<const Page> pages, std::uint64_t page_bytes) {
  std::size_t n_mapped = 0;
  while (n_mapped < pages.size() &&
         driver_.map(data + n_mapped * page_bytes, page_bytes, 0, handle_of(pages[n_mapped]), 0) == CUDA_SUCCESS)
    ++n_mapped;
  const CUmemAccessDesc access = {.location = of_pages_.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (n_mapped == pages.size() && driver_.set_access(data, n_mapped * page_bytes, &access, 1) == CUDA_SUCCESS)
    return {};
  for (std::size_t i = 0; i < n_mapped; ++i) (void)driver_.unmap(data + i * page_bytes, page_bytes);
  return Error{ErrorKind::does_not_fit,
               "device tier: " + format_bytes(pages.size() * page_bytes) + " of the GPU's memory could not be mapped"};
}

void CudaPages::unmap(void* data, std::uint64_t n_bytes) noexcept {
  const DeviceGuard guard(ordinal_);
  (void)driver_.unmap(address_of(data), n_bytes);
  (void)driver_.free(address_of(data), n_bytes);
}

}  // namespace castor
