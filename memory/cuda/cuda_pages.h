// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <memory>
#include <span>

#include <castor/memory/page_source.h>

namespace castor {

/// Pages of a GPU's memory, by the driver's management of virtual memory.
class CudaPages final : public PageSource {
 public:
  /// Null where the GPU or the driver cannot map pages.
  static std::unique_ptr<CudaPages> make(int ordinal);

  std::uint64_t grain_bytes() const override { return grain_bytes_; }
  Result<Page> create(std::uint64_t page_bytes) override;
  void destroy(Page page) noexcept override;
  Result<void*> map(std::span<const Page> pages, std::uint64_t page_bytes) override;
  void unmap(void* data, std::uint64_t n_bytes) noexcept override;

 private:
  /// The functions of the driver, which is not linked: the library runs without one.
  struct Driver {
    decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
    decltype(&cuMemAddressReserve) reserve = nullptr;
    decltype(&cuMemAddressFree) free = nullptr;
    decltype(&cuMemCreate) create = nullptr;
    decltype(&cuMemRelease) release = nullptr;
    decltype(&cuMemMap) map = nullptr;
    decltype(&cuMemUnmap) unmap = nullptr;
    decltype(&cuMemSetAccess) set_access = nullptr;
    bool found() const;
  };

  CudaPages(int ordinal, const Driver& driver);
  static Driver find_driver();
  Result<void> map_at(CUdeviceptr data, std::span<const Page> pages, std::uint64_t page_bytes);

  const int ordinal_;
  const Driver driver_;
  const CUmemAllocationProp of_pages_;
  std::uint64_t grain_bytes_ = 0;
};

}  // namespace castor
