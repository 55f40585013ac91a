// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <castor/memory/timeline.h>
#include <castor/plugins/abi.h>
#include <castor/states/state_io.h>

#include "model_shape.h"

namespace castor {

/// The values of the model's parameters and states: initialises them from the host, and reads and writes them between
/// steps.
///
/// Threads: one at a time.
class ModelValues {
 public:
  /// Borrowed.
  struct Parts {
    const castor_host_v1& host;
    const ModelShape& model;
    const IndexedVector<ParamId, std::optional<TensorId>>& place_of;  ///< EngineRooms::place_of
    const Timeline& timeline;
    StateIo& io;
  };
  explicit ModelValues(const Parts& parts) : parts_(parts) {}

  /// Gives the parameters their first values, unless they have any. Errors: those of the host, and
  /// StateIo::initialise's; then the next call begins anew.
  [[nodiscard]] Result<void> initialise();
  /// Records that the parameters have values from another source.
  void set_initialised() { initialised_ = true; }

  /// Errors: usage, where the parameter does not exist; StateIo::read's.
  [[nodiscard]] Result<void> read_master(ParamId param, float* out);
  [[nodiscard]] Result<void> read(castor_param_state& state);
  [[nodiscard]] Result<void> write(const castor_param_state& state);

 private:
  Result<void> check(ParamId param) const;

  const Parts parts_;
  bool initialised_ = false;
};

}  // namespace castor
