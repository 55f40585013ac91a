// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/abi.h>
#include <castor/plugins/call_need.h>

namespace castor {

/// The functions of castor/plugins/abi/model.inc.
class ModelCalls {
 public:
  virtual ~ModelCalls() = default;
#include <castor/plugins/abi/as_virtuals.inc>
#include <castor/plugins/abi/model.inc>
};

/// The functions of castor/plugins/abi/device.inc.
class DeviceCalls {
 public:
  virtual ~DeviceCalls() = default;
#include <castor/plugins/abi/as_virtuals.inc>
#include <castor/plugins/abi/device.inc>
};

/// The functions of castor/plugins/abi/groups.inc.
class GroupCalls {
 public:
  virtual ~GroupCalls() = default;
#include <castor/plugins/abi/as_virtuals.inc>
#include <castor/plugins/abi/groups.inc>
};

/// The functions of castor/plugins/abi/stages.inc.
class StageCalls {
 public:
  virtual ~StageCalls() = default;
#include <castor/plugins/abi/as_virtuals.inc>
#include <castor/plugins/abi/stages.inc>
};

/// Whether the parameter is trained, as the host described it.
inline bool is_trainable(const castor_param_info& param) { return (param.flags & CASTOR_PARAM_TRAINABLE) != 0; }
inline bool is_opaque(const castor_param_info& param) { return (param.flags & CASTOR_PARAM_OPAQUE) != 0; }

/// A model as a plugin sees it, in C++: implemented by plugins/torch (TorchAdapter::host) and by doubles in the tests;
/// a plugin that links libcastor gets one that calls the host's tables.
///
/// Where a function fails, the Error that it returns is what reaches the user. `set_error` is the border's own and not
/// to be overridden. Threads: as the lists say.
class ModelHost : public ModelCalls {
 public:
  /// By default no parameter is sharded and no unit belongs to another.
  Result<castor_unit_layout> unit_layout(std::uint32_t unit) override;
  Result<castor_param_layout> param_layout(std::uint32_t param) override;

  /// Null where the device is the host.
  virtual DeviceCalls* device_memory() { return nullptr; }
  /// Null where there is one rank.
  virtual GroupCalls* groups() { return nullptr; }
  /// Null where there is no pipeline.
  virtual StageCalls* stages() { return nullptr; }
};

}  // namespace castor
