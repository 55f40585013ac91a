// SPDX-License-Identifier: Apache-2.0
#include "parameter_storage.h"

namespace castor {

void clear_access_message(c10::StorageImpl& storage) { storage.clear_data_ptr_access_error_msg_(); }

}  // namespace castor
