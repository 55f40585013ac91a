// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/runtime.h>

#include <castor/plugins/torch/errors.h>
#include <castor/states/model_chunks.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/AllocatorConfig.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace castor {
namespace {

std::string allocator_settings(std::uint64_t budget_bytes, std::uint64_t total_bytes) {
  const std::string settings = "expandable_segments:True";
  if (budget_bytes >= total_bytes) return settings;
  char fraction[32];
  std::snprintf(fraction, sizeof fraction, "%.12f", allocator_share(budget_bytes, total_bytes));
  return settings + ",per_process_memory_fraction:" + fraction;
}

}  // namespace

std::string torch_build_tag() { return "torch-" TORCH_VERSION "+cxx11"; }

bool torch_has_cuda() { return at::hasCUDA(); }

double allocator_share(std::uint64_t budget_bytes, std::uint64_t total_bytes) {
  if (budget_bytes >= total_bytes) return 1;
  const std::uint64_t limit_bytes = budget_bytes - std::min(budget_bytes / 2, kAllocatorSegmentBytes);
  return static_cast<double>(limit_bytes + 1) / static_cast<double>(total_bytes);  // torch rounds down
}

void set_determinism(bool on) {
  if (on) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

void set_threads(int n) {
  if (n > 0) at::set_num_threads(n);
}

Result<void> configure_device_allocator(std::uint64_t budget_bytes, std::uint64_t total_bytes) {
  // Not through PYTORCH_ALLOC_CONF: LibTorch may have read it while it was loaded, before main.
  return guard([&] { c10::CachingAllocator::setAllocatorSettings(allocator_settings(budget_bytes, total_bytes)); });
}

}  // namespace castor
