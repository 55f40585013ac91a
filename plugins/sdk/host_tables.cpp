// SPDX-License-Identifier: Apache-2.0
#include "host_tables.h"

#include <utility>

#include "thunk.h"

namespace castor::sdk {

template <>
ModelCalls& HostTables::part() {
  return host_;
}
template <>
DeviceCalls& HostTables::part() {
  return *host_.device_memory();
}
template <>
GroupCalls& HostTables::part() {
  return *host_.groups();
}
template <>
StageCalls& HostTables::part() {
  return *host_.stages();
}

namespace {

castor_model_v2 model_table() {
  using Side = HostTables;
  using Calls = ModelCalls;
  return {
      .struct_size = sizeof(castor_model_v2),
#include "as_thunks.inc"
#include <castor/plugins/abi/model.inc>
  };
}

castor_device_v2 device_table() {
  using Side = HostTables;
  using Calls = DeviceCalls;
  return {
      .struct_size = sizeof(castor_device_v2),
#include "as_thunks.inc"
#include <castor/plugins/abi/device.inc>
  };
}

castor_groups_v2 groups_table() {
  using Side = HostTables;
  using Calls = GroupCalls;
  return {
      .struct_size = sizeof(castor_groups_v2),
#include "as_thunks.inc"
#include <castor/plugins/abi/groups.inc>
  };
}

castor_stages_v2 stages_table() {
  using Side = HostTables;
  using Calls = StageCalls;
  return {
      .struct_size = sizeof(castor_stages_v2),
#include "as_thunks.inc"
#include <castor/plugins/abi/stages.inc>
  };
}

}  // namespace

HostTables::HostTables(ModelHost& host)
    : host_(host), model_(model_table()), device_(device_table()), groups_(groups_table()), stages_(stages_table()) {
  model_.set_error = set_error;
  table_ = {.struct_size = sizeof table_,
            .self = this,
            .model = &model_,
            .device = host.device_memory() ? &device_ : nullptr,
            .groups = host.groups() ? &groups_ : nullptr,
            .stages = host.stages() ? &stages_ : nullptr};
}

void HostTables::set_error(void* self, const castor_error* error) {
  if (error != nullptr) static_cast<HostTables*>(self)->leave(error_from(known(*error)));
}

castor_status HostTables::leave(Error error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  return status_of(error_->kind);
}

std::optional<Error> HostTables::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, std::nullopt);
}

}  // namespace castor::sdk
