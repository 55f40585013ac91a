// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/rehearsal.h>

#include <memory>
#include <utility>

#include <castor/mover/activation_store.h>
#include <castor/optimizer/offload_optimizer.h>
#include <castor/schedule/virtual_machine.h>

namespace castor {
namespace {

/// Iterations until the last one is like all that follow: updates are deferred from the first to the second, and begin
/// early or speculatively in the second.
constexpr int kIterations = 3;

/// A device without data: chunks are addresses alone (VirtualMachine), so no kernel may touch them. The few bytes that
/// norms and ratios take are real.
class VirtualDevice final : public Device {
 public:
  explicit VirtualDevice(VirtualClock& clock) : clock_(clock), host_(make_cpu_device()) {}

  DeviceKind kind() const override { return DeviceKind::cpu; }
  KernelPlace kernels() const override { return KernelPlace::nowhere; }
  std::string description() const override { return "virtual"; }
  Result<std::unique_ptr<Stream>> make_stream() override { return stream(); }
  std::unique_ptr<Stream> wrap_compute_stream(void*) override { return stream(); }
  MemoryResource& device_memory() override { return host_->device_memory(); }
  MemoryResource& host_memory() override { return host_->host_memory(); }
  std::uint64_t total_memory_bytes() const override { return 0; }
  std::uint64_t free_memory_bytes() const override { return 0; }

 private:
  std::unique_ptr<Stream> stream() { return std::make_unique<VirtualStream>(clock_, 0); }

  VirtualClock& clock_;
  const std::unique_ptr<Device> host_;
};

/// A team whose jobs have ended when they are added, without having run.
class IdleTeam final : public HostTeam {
 public:
  Event add(Job) override { return {}; }
  void limit_threads(unsigned) override {}
  std::unique_ptr<StreamTime> time() override { return std::make_unique<VirtualTime>(0); }
};

class Stage {
 public:
  explicit Stage(const RehearsedStep& step) : step_(step) {}

  Result<void> set_up(StatePlacement placement);
  Result<void> run(const StepOptions& options);
  Rehearsal recorded() { return {machine_.scheduler.trace(), machine_.scheduler.problem(), activations_}; }
  void forget() { machine_.scheduler.forget_trace(); }

 private:
  Result<void> put_chunks();
  Result<void> play(const StepCall& call, const StepOptions& options);
  Result<void> enter(MomentKind pass, UnitId unit);
  std::vector<Need> needs_of(UnitId unit) const;
  Result<void> keep(const StepCall& call);

  const RehearsedStep& step_;
  VirtualMachine machine_{LinkCosts{}, {}};
  StreamSpans computed_{machine_.timeline, machine_.compute};
  VirtualDevice device_{machine_.clock};
  IdleTeam team_;
  std::unique_ptr<OffloadOptimizer> optimizer_;
  ActivationStore kept_{{machine_.chunks, machine_.mover, machine_.compute}};
  std::vector<ChunkId> activations_;  ///< by number in the script
  std::uint32_t micro_batch_ = 0;
};

Result<void> Stage::set_up(StatePlacement placement) {
  if (!step_.plain_norms) placement.speculative.assign(placement.speculative.size(), false);
  CASTOR_ASSIGN(optimizer_, OffloadOptimizer::make({.layout = step_.layout,
                                                    .chunks = machine_.chunks,
                                                    .mover = machine_.mover,
                                                    .scheduler = machine_.scheduler,
                                                    .device = device_,
                                                    .compute = machine_.compute,
                                                    .down = machine_.down,
                                                    .timeline = machine_.timeline,
                                                    .computed = computed_,
                                                    .registration_order = step_.registration_order,
                                                    .interrupted = [] { return false; },
                                                    .team = team_,
                                                    .overlap = step_.overlap,
                                                    .format = step_.format}));
  CASTOR_TRY(put_chunks());
  return optimizer_->adopt(std::move(placement));
}

/// Weights and states have contents before the first step.
Result<void> Stage::put_chunks() {
  const StateLayout& states = optimizer_->states();
  for (const PayloadId chunk : states.chunks()) {
    std::vector<ChunkId> written = {states.payload(chunk)};
    if (states.shape(chunk).trainable) written = states.written_by_update(chunk);
    for (const ChunkId id : written) {
      CASTOR_TRY(machine_.mover.open(id, Tier::host));
      machine_.chunks.written(id, Tier::host);
    }
  }
  return {};
}

Result<void> Stage::run(const StepOptions& options) {
  activations_.clear();
  micro_batch_ = 0;
  for (const StepCall& call : step_.script) CASTOR_TRY(play(call, options));
  CASTOR_TRY(optimizer_->step(options));
  return {};
}

Result<void> Stage::play(const StepCall& call, const StepOptions& options) {
  using Kind = StepCall::Kind;
  switch (call.kind) {
    case Kind::forward: return enter(MomentKind::forward, UnitId{call.id});
    case Kind::backward: return enter(MomentKind::backward, UnitId{call.id});
    case Kind::end_forward:
    case Kind::end_backward: return machine_.scheduler.end(needs_of(UnitId{call.id})), Result<void>();
    case Kind::gradient: return optimizer_->add_gradient(TensorId{call.id}, {nullptr, [] {}});
    case Kind::keep: return keep(call);
    case Kind::recall: {
      CASTOR_TRY(kept_.recall(activations_.at(call.id)));
      return {};
    }
    case Kind::forget: return kept_.forget(activations_.at(call.id));
    case Kind::announce: return optimizer_->announce(options);
    case Kind::end_of_backward: return ++micro_batch_, optimizer_->update_early();
  }
  return {};
}

Result<void> Stage::enter(MomentKind pass, UnitId unit) {
  CASTOR_TRY(optimizer_->prepare(step_.unit_chunks.at(unit)));
  Moment moment = {pass, number(unit)};
  moment.micro_batch = micro_batch_;
  return machine_.scheduler.begin(moment, needs_of(unit));
}

std::vector<Need> Stage::needs_of(UnitId unit) const {
  std::vector<Need> needs;
  for (const PayloadId chunk : step_.unit_chunks.at(unit))
    needs.push_back({optimizer_->states().payload(chunk), Tier::device, Access::read});
  return needs;
}

Result<void> Stage::keep(const StepCall& call) {
  CASTOR_ASSIGN(const auto chunk, kept_.keep(nullptr, call.n_bytes));
  if (!chunk || call.id != activations_.size())
    return Error{ErrorKind::usage, "the calls of a step keep activations in the order of their numbers, after a unit"};
  activations_.push_back(*chunk);
  return {};
}

}  // namespace

Result<Rehearsal> rehearse(const RehearsedStep& step, StatePlacement placement, const StepOptions& options) {
  Stage stage(step);
  CASTOR_TRY(stage.set_up(std::move(placement)));
  for (int i = 0; i < kIterations; ++i) {
    if (i > 0) stage.forget();  // so that no iteration is planned
    CASTOR_TRY(stage.run(options));
  }
  return stage.recorded();
}

}  // namespace castor
