// SPDX-License-Identifier: Apache-2.0
#include "parameter_storage.h"

#include <castor/plugins/torch/model_parts.h>
#include <castor/plugins/torch/on_meta.h>
#include "device_memory.h"

#include <ATen/EmptyTensor.h>

namespace castor {
namespace {

/// Marks memory that a strategy has bound: the context of the pointer names who did.
void leave_to_owner(void*) {}

void set_access_message(c10::StorageImpl& storage, const std::string& why) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}

/// Not through a getter: those of a released storage throw its message.
const c10::DataPtr& pointer_of(const c10::StorageImpl& storage) {
  return const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
}

}  // namespace

at::Tensor make_unplaced(at::IntArrayRef sizes, const at::TensorOptions& wanted) {
  const at::TensorOptions options = OnMeta::active() ? wanted.device(c10::kMeta) : wanted;
  const c10::Device device = numbered(options.device());
  const std::int64_t n_bytes = c10::multiply_integers(sizes) * static_cast<std::int64_t>(options.dtype().itemsize());
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), c10::SymInt(n_bytes),
                                                       c10::DataPtr(nullptr, device), nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(options.computeDispatchKey()), options.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

at::Tensor unplaced_like(const at::Tensor& tensor, const at::TensorOptions& options) {
  at::Tensor made = make_unplaced(tensor.sizes(), options.requires_grad(false));
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  set_access_message(storage_of(made), "it has no memory yet: the model is being boosted");
  return made;
}

at::Tensor inaccessible_like(const at::Tensor& tensor, const std::string& why) {
  at::Tensor made = unplaced_like(tensor, tensor.options());
  set_access_message(storage_of(made), why);
  return made;
}

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool has_memory(const c10::StorageImpl& storage) { return pointer_of(storage).get() != nullptr; }

at::Tensor in_storage_order(const at::Tensor& tensor) {
  return tensor.variable_data().as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

void bind_storage(c10::StorageImpl& storage, void* data, const void* owner) {
  const c10::Device device = storage.device();
  clear_access_message(storage);
  storage.set_data_ptr_noswap(c10::DataPtr(data, const_cast<void*>(owner), &leave_to_owner, device));
}

const void* owner_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& pointer = pointer_of(storage);
  return pointer.get_deleter() == &leave_to_owner ? pointer.get_context() : nullptr;
}

void release_storage(c10::StorageImpl& storage, const std::string& why) {
  const c10::Device device = storage.device();
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device));
  set_access_message(storage, why);
}

void take_memory(const at::Tensor& tensor, const std::string& why) {
  c10::StorageImpl& storage = storage_of(tensor);
  release_storage(storage, why);
  storage.set_nbytes(0);
}

void give_memory(const at::Tensor& tensor, c10::DataPtr memory, std::uint64_t n_bytes) {
  c10::StorageImpl& storage = storage_of(tensor);
  clear_access_message(storage);
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(n_bytes);
}

}  // namespace castor
