// SPDX-License-Identifier: Apache-2.0
// A small random training over three tiers.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <castor/optimizer/rehearsal.h>

#include "../optimizer/optimizer_world.h"

namespace castor::testing {

/// Steps with the same accesses as long as their norm is clipped alike, of units that each use a chunk or two.
class RegularTraining {
 public:
  RegularTraining(std::uint64_t seed, HostTeam& team)
      : random_(seed),
        world_(
            tensors(random_),
            {.chunk_bytes = 4096, .with_spill = true, .speculates = true, .beside = &team, .format = format(random_)}) {
    options_.update = AdamOptions{};
    clip_to(kMaxNorms[random_() % 3]);
    const auto n_chunks = static_cast<std::uint32_t>(world_.layout.chunks.size());
    for (std::uint32_t chunk = 0; chunk < n_chunks;) {
      auto& unit = units_[units_.push_back({})];
      for (std::uint64_t n = 1 + random_() % 2; n > 0 && chunk < n_chunks; --n) unit.push_back(PayloadId{chunk++});
    }
    for (std::uint32_t i = 0; i < n_chunks; ++i) homes_.push_back(kHomes[random_() % 4]);
    const bool room_for_all = random_() % 2 == 0;
    for (std::uint32_t i = 0; i < n_chunks; ++i) world_.may_speculate.push_back(room_for_all || random_() % 2 == 0);
    world_.start(homes_).value();
  }

  /// No norm, one that is always above max_norm, and one that never is; with the last, updates are speculative.
  static constexpr double kMaxNorms[] = {0, 1e-3, 1e6};
  void clip_to(double max_norm) { options_.max_norm = max_norm; }

  OptimizerWorld& world() { return world_; }
  const AccessTrace& trace() { return trace_of(world_.scheduler); }

  void stream_a_third() {
    std::vector<bool> streamed;
    for (std::size_t i = 0; i < homes_.size(); ++i) streamed.push_back(homes_[i] != Tier::device && random_() % 3 == 0);
    world_.adopt(homes_, streamed).value();
  }

  void step() {
    for (const StepCall& call : script()) play(call);
    world_.step(options_).value();
  }

  /// The next step under the placement in force.
  Rehearsal rehearse() {
    return castor::rehearse({world_.layout, world_.registered, units_, script(), world_.format, /*overlap=*/true,
                             world_.optimizer->speculates()},
                            world_.optimizer->states().placement(), options_)
        .value();
  }

 private:
  static constexpr Tier kHomes[] = {Tier::device, Tier::host, Tier::host, Tier::nvme};

  static StateFormat format(std::mt19937_64& random) {
    StateFormat format;
    format.split_master = random() % 2 == 0;
    return format;
  }

  /// Tensors, some larger than a chunk.
  static std::vector<TensorSpec> tensors(std::mt19937_64& random) {
    std::vector<TensorSpec> specs;
    for (int i = 0; i < 12; ++i) {
      TensorSpec& spec = specs.emplace_back();
      spec.numel = 1 + random() % (random() % 4 == 0 ? 9000 : 900);
      spec.dtype = DType::bf16;
    }
    return specs;
  }

  /// Every step makes these calls.
  StepScript script() const {
    using Kind = StepCall::Kind;
    StepScript script;
    const auto add = [&](Kind kind, std::uint32_t id = 0) { script.push_back({kind, id, 0}); };
    for (const UnitId unit : units_.ids()) add(Kind::forward, number(unit)), add(Kind::end_forward, number(unit));
    add(Kind::announce);
    for (const UnitId unit : units_.ids().backward()) {
      add(Kind::backward, number(unit)), add(Kind::end_backward, number(unit));
      for (const PayloadId chunk : units_[unit])
        for (const TensorId tensor : world_.layout.chunks[chunk].tensors) add(Kind::gradient, number(tensor));
    }
    add(Kind::end_of_backward);
    return script;
  }

  void play(const StepCall& call) {
    switch (call.kind) {
      case StepCall::Kind::forward: return enter({MomentKind::forward, call.id});
      case StepCall::Kind::backward: return enter({MomentKind::backward, call.id});
      case StepCall::Kind::end_forward:
      case StepCall::Kind::end_backward: return world_.scheduler.end(needs_of(UnitId{call.id}));
      case StepCall::Kind::gradient:
        return world_.gradient(call.id, random_gradient(random_, world_.specs[call.id].numel)).value();
      case StepCall::Kind::announce: return world_.optimizer->announce(options_).value();
      case StepCall::Kind::end_of_backward: return world_.optimizer->update_early().value();
      default: FAIL() << "no activations here";
    }
  }

  std::vector<Need> needs_of(UnitId unit) const {
    std::vector<Need> needs;
    for (const PayloadId chunk : units_[unit])
      needs.push_back({world_.optimizer->states().payload(chunk), Tier::device, Access::read});
    return needs;
  }

  void enter(Moment moment) {
    const UnitId unit{moment.id};
    world_.optimizer->prepare(units_[unit]).value();
    world_.scheduler.begin(moment, needs_of(unit)).value();
  }

  std::mt19937_64 random_;
  OptimizerWorld world_;
  StepOptions options_;
  IndexedVector<UnitId, std::vector<PayloadId>> units_;  ///< chunks
  std::vector<Tier> homes_;
};

}  // namespace castor::testing
