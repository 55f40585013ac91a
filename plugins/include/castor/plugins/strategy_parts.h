// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/plugins/strategy.h>

namespace castor {

// Pieces that strategies in C++ have in common.

/// The tickets of a strategy whose steps are decided when begin_step returns.
class StepTickets {
 public:
  /// The ticket of a step that was just made.
  std::uint64_t add(bool skipped, double grad_norm);
  /// Errors: usage, for every step but the last.
  Result<castor_step_result> result_of(std::uint64_t ticket) const;

 private:
  std::uint64_t n_steps_ = 0;
  castor_step_result last_ = {};
};

/// The accesses to weights outside of units that were not ended yet: acquire and release.
class OpenAccesses {
 public:
  /// Errors: usage, for an unknown mode and for parameters that a model of `n_params` does not have.
  static Result<void> check(const castor_access& access, std::size_t n_params);

  void add(const castor_access& access) { open_.push_back(copy_of(access)); }
  /// Errors: usage, where no access with these values is open.
  Result<void> find(const castor_access& access) const;
  /// Requires: find(access).
  void remove(const castor_access& access);

 private:
  struct Access {
    std::uint32_t mode;
    std::vector<std::uint32_t> params;
    bool operator==(const Access&) const = default;
  };
  static Access copy_of(const castor_access& access) {
    return {access.mode, {access.params, access.params + access.n}};
  }

  std::vector<Access> open_;
};

/// `wanted` of a parameter of `numel` elements, with n as a number; `what` names them: "masters". Errors: usage, where
/// they are wanted in another form than fp32, or the parameter has no such values.
Result<castor_values> fp32_values(const castor_values& wanted, std::uint64_t numel, const char* what);

/// The masters that `wanted` asks for, of a parameter of `numel` elements, as a state to read; of an opaque
/// one its values. Errors: usage, where they are wanted in another form, or the parameter has no such values.
Result<castor_param_state> masters_of(const castor_values& wanted, std::uint64_t numel, bool opaque = false);

/// The error of an access that would write the opaque parameter `name`.
Error opaque_is_read_only(const std::string& name);

/// The error of reading or writing part of a gradient that the parameter `name` of `numel` elements does not have.
Error no_gradient(const std::string& name, std::uint64_t numel);

}  // namespace castor
