// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <span>

#include <castor/memory/timeline.h>
#include <castor/optimizer/pending_gradients.h>
#include <castor/plugins/model_host.h>
#include <castor/plugins/strategy_parts.h>
#include <castor/states/state_io.h>

#include "bindings.h"
#include "lent_weights.h"
#include "model_shape.h"

namespace castor {

/// The values of the model's parameters and states: initialises them from the host, and reads and writes them between
/// steps.
///
/// Threads: one at a time.
class ModelValues final : public ValueCalls {
 public:
  /// Borrowed.
  struct Parts {
    ModelHost& host;
    const ModelShape& model;
    const IndexedVector<ParamId, std::optional<TensorId>>& place_of;  ///< EngineRooms::place_of
    const Timeline& timeline;
    StateIo& io;
    PendingGradients& gradients;
    Bindings& bindings;
    LentWeights& lent;
  };
  explicit ModelValues(const Parts& parts) : parts_(parts) {}

  /// Gives the parameters their first values, unless they have any. Errors: those of the host, and
  /// StateIo::initialise's; then the next call begins anew.
  [[nodiscard]] Result<void> initialise();
  /// Records that the parameters have values from another source.
  void set_initialised() { initialised_ = true; }
  /// Before the first use or change of values: initialises them, and takes the model's own memory from the parameters,
  /// which would keep the first values whatever is trained or loaded. Errors: as initialise.
  [[nodiscard]] Result<void> begin_use();

  /// All of every parameter.
  Result<castor_ranges> owned_ranges(std::uint32_t param) override;
  /// Errors of all three: usage, where the parameter or the range does not exist; StateIo's.
  Result<void> read_masters(const castor_values& values) override;
  Result<void> read_state(castor_param_state& state) override;
  Result<void> write_state(const castor_param_state& state) override;
  /// Errors of both: usage, for values that the parameter does not have, and where it has no gradient, which a write of
  /// all values alone gives it; those of PendingGradients.
  Result<void> read_gradient(const castor_values& values) override;
  Result<void> write_gradient(const castor_values& values) override;
  /// Errors: those of LentWeights.
  Result<void> acquire(const castor_access& access) override;
  Result<void> release(const castor_access& access) override { return parts_.lent.release(access); }
  /// A parameter that was trained when the engine was made may be frozen and trained again. Errors: usage, where it was
  /// frozen then.
  Result<void> set_trainable(std::uint32_t param, std::int32_t trainable) override;

 private:
  /// The values of a gradient: its tensor, or none of a parameter without elements, and their range.
  struct GradientRange {
    std::optional<TensorId> tensor;
    std::uint64_t first = 0;
    std::span<float> values;
  };

  Result<void> check(ParamId param) const;
  Result<GradientRange> gradient_range(const castor_values& values, bool gets_one) const;

  const Parts parts_;
  bool initialised_ = false, in_use_ = false;
  std::array<std::uint64_t, 2> owned_ = {};  ///< the memory that owned_ranges' result points to
};

}  // namespace castor
