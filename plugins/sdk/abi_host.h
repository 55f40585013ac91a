// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/plugins/model_host.h>

#include "errors.h"
#include "other_side.h"

namespace castor::sdk {

/// The host's tables as a ModelHost, for a plugin in C++. An Error of the host has no message: it is with the host
/// already.
class AbiHost final : public ModelHost, private ErrorSource {
 public:
  /// `host` is borrowed. Requires: the host's own tables, which are complete.
  explicit AbiHost(const castor_host_v2& host)
      : other_(host.model, host.self, *this),
        device_(host.device, host.self, *this),
        groups_(host.groups, host.self, *this),
        stages_(host.stages, host.self, *this),
        has_device_(host.device != nullptr),
        has_groups_(host.groups != nullptr),
        has_stages_(host.stages != nullptr) {}

  DeviceCalls* device_memory() override { return has_device_ ? &device_ : nullptr; }
  GroupCalls* groups() override { return has_groups_ ? &groups_ : nullptr; }
  StageCalls* stages() override { return has_stages_ ? &stages_ : nullptr; }

  using Table = castor_model_v2;
#include "as_callers.inc"
#include <castor/plugins/abi/model.inc>

 private:
  class Device final : public DeviceCalls {
   public:
    using Table = castor_device_v2;
    Device(const Table* table, void* self, const ErrorSource& source) : other_(table, self, source) {}
#include "as_callers.inc"
#include <castor/plugins/abi/device.inc>

   private:
    const OtherSide<Table> other_;
  };

  class Groups final : public GroupCalls {
   public:
    using Table = castor_groups_v2;
    Groups(const Table* table, void* self, const ErrorSource& source) : other_(table, self, source) {}
#include "as_callers.inc"
#include <castor/plugins/abi/groups.inc>

   private:
    const OtherSide<Table> other_;
  };

  class Stages final : public StageCalls {
   public:
    using Table = castor_stages_v2;
    Stages(const Table* table, void* self, const ErrorSource& source) : other_(table, self, source) {}
#include "as_callers.inc"
#include <castor/plugins/abi/stages.inc>

   private:
    const OtherSide<Table> other_;
  };

  std::string name() const override { return "the host"; }
  Error error_of(castor_status status, const char*) const override { return {kind_of(status), ""}; }

  const OtherSide<Table> other_;
  Device device_;
  Groups groups_;
  Stages stages_;
  const bool has_device_, has_groups_, has_stages_;
};

}  // namespace castor::sdk
