// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/stream_spans.h>
#include <castor/mover/activation_store.h>
#include <castor/optimizer/offload_optimizer.h>
#include <castor/states/state_commits.h>
#include <castor/schedule/scheduler.h>
#include <castor/plugins/strategy.h>

#include "device_watch.h"
#include "gemini_memory.h"
#include "stream_trial.h"
#include "thread_trial.h"

namespace castor {

/// The model as the host table describes it, read once.
struct ModelShape {
  std::vector<TensorSpec> tensors;  ///< by parameter
  std::vector<std::string> unit_names;
  std::vector<std::vector<std::uint32_t>> units;  ///< parameters of each unit
  std::vector<std::uint32_t> order;               ///< parameters in the order of first use by the units

  /// Errors: usage where a parameter belongs to no unit or has a dtype that chunks do not hold.
  static Result<ModelShape> read(const castor_host_v1& host);
};

/// Gemini: parameters, gradients and optimizer states in chunks over three tiers.
///
/// Around each use of a unit its payload chunks are on the device and its parameters bound to them; in between, the
/// mover keeps what the budgets allow. The first step is the warm-up: only the working set on the device, while the
/// peak of non-model data is measured. Then the plan is made again with what is left, and on a GPU once more when it is known
/// how long an iteration's parts take: a share of the states is updated there on trial, and from then on where that is faster.
class GeminiStrategy final : public Strategy {
 public:
  static Result<std::unique_ptr<GeminiStrategy>> make(const castor_host_v1& host, const GeminiOptions& options);
  ~GeminiStrategy() override;

  /// Places and initialises every parameter.
  Result<void> attach();

  Result<void> before_forward(std::uint32_t unit) override;
  Result<void> after_forward(std::uint32_t unit) override;
  Result<void> before_backward(std::uint32_t unit) override;
  Result<void> after_backward(std::uint32_t unit) override;
  Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) override;
  Result<void> end_of_backward() override;
  Result<void> announce_step(const castor_step_args& args) override;
  Result<castor_step_result> step(const castor_step_args& args) override;
  Result<void> read_master(std::uint32_t param, float* out) override;
  Result<void> read_state(castor_param_state& state) override;
  Result<void> write_state(const castor_param_state& state) override;
  Result<castor_commit_result> commit(std::uint64_t step, std::string_view note) override;
  Result<std::optional<CommittedRun>> committed() override;
  Result<void> restore() override;
  Result<castor_stats> stats() override;
  Result<void> write_trace(const std::filesystem::path& path) override;
  Result<std::optional<std::uint32_t>> keep(const void* data, std::uint64_t n_bytes) override;
  Result<void*> recall(std::uint32_t kept) override;
  Result<void> forget(std::uint32_t kept) override;

 private:
  GeminiStrategy(const castor_host_v1& host, const GeminiOptions& options, std::unique_ptr<GeminiMemory> memory,
                 ModelShape model);
  Result<void> build();
  Result<void> open_commits();
  Result<void> can_commit() const;
  Result<void> fill();
  void lay_out();
  std::uint64_t chunk_bytes(const std::vector<TensorSpec>& tensors) const;
  /// True where the first step is a warm-up: what the chunks may take is known after it.
  bool measures() const;
  LargestUnit largest_unit() const;
  PlacementRequest placement_request() const;
  Result<void> plan_again();
  Result<void> try_streams();
  bool knows_share();
  void try_threads();
  double modelled_share() const;
  void tell_speculation() const;
  Result<void> place();
  Result<void> enter(Moment moment);
  void end_computing();
  void leave(std::uint32_t unit);
  void leave_all();
  Result<void> bind(std::uint32_t unit);
  void unbind(ChunkId payload, const std::string& why);
  void hide_pending();
  void sample();
  Result<StepOptions> options_of(const castor_step_args& args) const;

  /// What goes on with a parameter now.
  struct ParamUse {
    bool bound = false;
  };
  /// What goes on with a unit now.
  struct UnitUse {
    bool forward_open = false;
    std::uint32_t n_backward_open = 0;  ///< several where it was used several times and its input needs no gradient
  };
  /// What was entered last.
  struct Computing {
    StreamSpans::Begun begun;
    SpanRecord what;
  };

  const castor_host_v1& host_;
  const GeminiOptions options_;
  const std::unique_ptr<GeminiMemory> memory_;
  const ModelShape model_;
  DeviceWatch watch_;
  Timeline timeline_;
  std::unique_ptr<Stream> compute_, up_, down_;
  std::unique_ptr<StreamSpans> computed_;  ///< of compute_
  std::unique_ptr<HostTeam> team_;         ///< updates what is on the host

  ChunkLayout layout_;
  SlotSizes slots_;                      ///< of what may lie on the device
  std::vector<std::uint32_t> place_of_;  ///< tensor number in the layout, by parameter
  std::unique_ptr<ChunkManager> chunks_;
  std::unique_ptr<StatefulTensorMgr> mover_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<OffloadOptimizer> optimizer_;
  std::unique_ptr<StateCommits> commits_;  ///< null where what lies on NVMe is scratch
  bool filled_ = false;                    ///< the chunks have contents
  std::unique_ptr<ActivationStore> activations_;
  std::vector<std::vector<std::uint32_t>> used_;  ///< chunks of the layout, by unit
  std::vector<std::vector<Need>> needs_;          ///< their payload chunks, on the device
  LargestUnit largest_unit_;
  std::vector<ParamUse> params_;  ///< by parameter
  std::vector<UnitUse> units_;    ///< by unit
  std::optional<Computing> computing_;

  PlacementRequest placed_;       ///< that the plan was made for, from the end of the warm-up on
  std::uint64_t kept_bytes_ = 0;  ///< of activations in chunks that were placed beside
  StreamTrial stream_trial_;
  AccessTrace without_streams_;  ///< a step before the trial
  bool as_forecast_ = false;     ///< steps with the share in use have gone as was forecast
  ThreadTrial thread_trial_;

  std::uint64_t n_steps_ = 0;
  double update_seconds_ = 0;
};

}  // namespace castor
