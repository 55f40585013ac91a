// SPDX-License-Identifier: Apache-2.0
// This LibTorch has a function that sets a storage's message, and none that clears it.
#include "parameter_storage.h"

namespace castor {
namespace {

bool& throws(c10::StorageImpl& storage);

/// The definition of throws(): an explicit instantiation may name a private member.
template <bool c10::StorageImpl::*kFlag>
struct Throws {
  friend bool& throws(c10::StorageImpl& storage) { return storage.*kFlag; }
};
template struct Throws<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

}  // namespace

void clear_access_message(c10::StorageImpl& storage) {
  throws(storage) = false;
  storage.get_extra_meta().custom_data_ptr_error_msg_.reset();
}

}  // namespace castor
