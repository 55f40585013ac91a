// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/model_host.h>

namespace castor::test {

/// A host that is its allocator alone, which is borrowed.
class AllocatorHost final : public ModelHost {
 public:
  explicit AllocatorHost(DeviceCalls& allocator) : allocator_(allocator) {}
  DeviceCalls* device_memory() override { return &allocator_; }

 private:
  DeviceCalls& allocator_;
};

}  // namespace castor::test
