// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>

#include <castor/plugins/model_host.h>

#include "errors.h"

namespace castor::sdk {

/// A ModelHost as C tables, and the error that either side left last. Cannot be moved: the tables point back at it.
///
/// Threads: as the lists say.
class HostTables {
 public:
  /// `host` is borrowed. It has the parts that it has now for good.
  explicit HostTables(ModelHost& host);
  HostTables(const HostTables&) = delete;
  HostTables& operator=(const HostTables&) = delete;

  const castor_host_v2& table() const { return table_; }
  ModelHost& host() const { return host_; }
  /// The error that was left since the last call.
  std::optional<Error> take_error();

  /// The interface `Calls` of the host (Thunk).
  template <typename Calls>
  Calls& part();

  /// Runs `body`, which returns a Result<void>, for the plugin; no exception leaves it.
  template <typename Body>
  castor_status guarded(const Body& body) noexcept {
    const Result<void> outcome = contained("", body);
    return outcome.ok() ? CASTOR_OK : leave(outcome.error());
  }

 private:
  static void set_error(void* self, const castor_error* error);
  castor_status leave(Error error);

  ModelHost& host_;
  castor_model_v2 model_;
  castor_device_v2 device_;
  castor_groups_v2 groups_;
  castor_stages_v2 stages_;
  castor_host_v2 table_ = {};
  std::mutex mutex_;  // of error_: first values are asked for by several threads
  std::optional<Error> error_;
};

}  // namespace castor::sdk
