// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/runtime.h>
#include "../parameter_storage.h"

namespace castor {

bool explains_released_access() { return true; }

void set_access_message(c10::StorageImpl& storage, const std::string& why) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}

void clear_access_message(c10::StorageImpl& storage) { storage.clear_data_ptr_access_error_msg_(); }

}  // namespace castor
