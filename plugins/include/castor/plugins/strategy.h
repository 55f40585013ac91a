// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/call_need.h>

namespace castor {

/// The functions of castor/plugins/abi/steps.inc.
class StepCalls {
 public:
  virtual ~StepCalls() = default;
#include <castor/plugins/abi/as_virtuals.inc>
#include <castor/plugins/abi/steps.inc>
};

/// The functions of castor/plugins/abi/values.inc.
class ValueCalls {
 public:
  virtual ~ValueCalls() = default;
#include <castor/plugins/abi/as_virtuals.inc>
#include <castor/plugins/abi/values.inc>
};

/// The functions of castor/plugins/abi/commits.inc.
class CommitCalls {
 public:
  virtual ~CommitCalls() = default;
#include <castor/plugins/abi/as_virtuals.inc>
#include <castor/plugins/abi/commits.inc>
};

/// The functions of castor/plugins/abi/activations.inc.
class ActivationCalls {
 public:
  virtual ~ActivationCalls() = default;
#include <castor/plugins/abi/as_virtuals.inc>
#include <castor/plugins/abi/activations.inc>
};

/// The last commit in a strategy's folders.
struct CommittedRun {
  std::uint64_t step = 0;
  std::string note;  ///< as it was given to commit
};

/// The calls around each unit of a model, and for its gradients, in C++: a plugin's strategy, or the resident run that
/// it is compared with.
///
/// Threads and order of the calls: as the lists say.
class Strategy : public StepCalls {
 public:
  virtual ValueCalls& values() = 0;
  /// By default nothing outlives the process: every call is refused.
  virtual CommitCalls& commits();
  /// By default nothing is kept.
  virtual ActivationCalls& activations();

  /// Begins a step and waits for its result.
  Result<castor_step_result> step(const castor_step_args& args);
  /// Copies all of the fp32 master of `param` to host memory.
  Result<void> read_master(std::uint32_t param, float* out);
  /// Begins a commit and waits until it is durable.
  Result<castor_commit_result> commit(std::uint64_t step, std::string_view note);
  /// The last commit in the strategy's folders, if there is one.
  Result<std::optional<CommittedRun>> committed();
};

}  // namespace castor
