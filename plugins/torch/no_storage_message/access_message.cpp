// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/runtime.h>
#include "../parameter_storage.h"

namespace castor {

// This LibTorch can set the message but never clear it again, so a released storage is a null pointer and no more.
bool explains_released_access() { return false; }

void set_access_message(c10::StorageImpl&, const std::string&) {}

void clear_access_message(c10::StorageImpl&) {}

}  // namespace castor
