// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/plugins/model_host.h>

#include "caller.h"
#include "errors.h"

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
        stages_(host.stages, host.self, *this) {}

  DeviceCalls* device_memory() override { return device_.is_there() ? &device_ : nullptr; }
  GroupCalls* groups() override { return groups_.is_there() ? &groups_ : nullptr; }
  StageCalls* stages() override { return stages_.is_there() ? &stages_ : nullptr; }

  using Table = castor_model_v2;
#include "as_callers.inc"
#include <castor/plugins/abi/model.inc>

 private:
  class Device final : public Caller<DeviceCalls, castor_device_v2, OtherSide> {
   public:
    using Caller::Caller;
#include "as_callers.inc"
#include <castor/plugins/abi/device.inc>
  };

  class Groups final : public Caller<GroupCalls, castor_groups_v2, OtherSide> {
   public:
    using Caller::Caller;
#include "as_callers.inc"
#include <castor/plugins/abi/groups.inc>
  };

  class Stages final : public Caller<StageCalls, castor_stages_v2, OtherSide> {
   public:
    using Caller::Caller;
#include "as_callers.inc"
#include <castor/plugins/abi/stages.inc>
  };

  std::string name() const override { return "the host"; }
  Error error_of(castor_status status, const char*) const override { return {kind_of(status), ""}; }

  const OtherSide<Table> other_;
  Device device_;
  Groups groups_;
  Stages stages_;
};

}  // namespace castor::sdk
