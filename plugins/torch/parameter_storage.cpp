// SPDX-License-Identifier: Apache-2.0
#include "parameter_storage.h"

#include <ATen/EmptyTensor.h>

namespace castor {

at::Tensor make_unplaced(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const c10::Device asked = options.device();
  const c10::Device device = asked.is_cuda() && !asked.has_index() ? c10::Device(c10::kCUDA, 0) : asked;
  const std::int64_t n_bytes = c10::multiply_integers(sizes) * static_cast<std::int64_t>(options.dtype().itemsize());
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), c10::SymInt(n_bytes),
                                                       c10::DataPtr(nullptr, device), nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(options.computeDispatchKey()), options.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

void bind_storage(c10::StorageImpl& storage, void* data) {
  const c10::Device device = storage.device();
  clear_access_message(storage);
  storage.set_data_ptr_noswap(c10::DataPtr(data, device));
}

void release_storage(c10::StorageImpl& storage, const std::string& why) {
  const c10::Device device = storage.device();
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device));
  set_access_message(storage, why);
}

}  // namespace castor
