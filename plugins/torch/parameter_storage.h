// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <string>

namespace castor {

/// One storage object per parameter for life: autograd keeps views of weights (a linear layer saves weight.t()), and
/// they follow when the storage's data pointer moves, not when the parameter gets another storage. Neither call
/// changes the tensor's version.

/// A tensor whose storage has the size of `sizes` but no memory, on the current device where `options` give none a
/// number. Needs no initialised device.
at::Tensor make_unplaced(at::IntArrayRef sizes, const at::TensorOptions& options);

/// A tensor of the sizes, strides, dtype and device of `tensor` without memory, for good: an access to it throws `why`.
at::Tensor inaccessible_like(const at::Tensor& tensor, const std::string& why);

c10::StorageImpl& storage_of(const at::Tensor& tensor);

/// False for a storage that was made without memory, or released.
bool has_memory(const c10::StorageImpl& storage);

/// The elements of a dense tensor in the order of its storage, [numel]: the order in which parameters cross the border
/// to a strategy. No copy and no graph; writing to it does not change the tensor's version.
at::Tensor in_storage_order(const at::Tensor& tensor);

/// Points the storage at `data`, which the caller keeps until release_storage. `owner`: who binds it.
void bind_storage(c10::StorageImpl& storage, void* data, const void* owner);
/// Who has bound the storage; null where its memory is its own, or none.
const void* owner_of(const c10::StorageImpl& storage);

/// Takes the memory away; an access to it throws `why`.
void release_storage(c10::StorageImpl& storage, const std::string& why);

/// Lets the storage be accessed again, once it is given memory. In the file that Meson chooses for this LibTorch.
void clear_access_message(c10::StorageImpl& storage);

}  // namespace castor
