// SPDX-License-Identifier: Apache-2.0
// An optimizer over three small tiers, gradients that detect when they are freed too early or twice, and the same
// training in a plain reference implementation ("the straight lines").
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <castor/optimizer/offload_optimizer.h>

#include "../../support/deferred_device.h"
#include "../../support/refusing_device.h"
#include "../../support/scheduled_mover.h"
#include "../rules/adam_data.h"
#include "../rules/naive_formats.h"

namespace castor::testing {

/// `values` as elements of `dtype`.
inline std::vector<std::uint8_t> elements_of(const std::vector<float>& values, DType dtype) {
  std::vector<std::uint8_t> bytes(values.size() * size_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f32) {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    } else {
      const std::uint16_t bits = dtype == DType::bf16 ? naive_bf16(values[i]) : naive_f16(values[i]);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
  }
  return bytes;
}

inline std::vector<float> widened(const std::vector<std::uint8_t>& elements, DType dtype) {
  std::vector<float> values(elements.size() / size_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = naive_widen(elements.data(), dtype, i);
  return values;
}

/// `n` gradients of both signs in 2^-10 … 2^5, with more digits than the 16-bit types keep.
inline std::vector<float> random_gradient(std::mt19937_64& random, std::uint64_t n) {
  std::vector<float> values(n);
  for (float& value : values) {
    const float magnitude = 1 + static_cast<float>(random() % (1u << 23)) * 0x1p-23f;
    value = std::ldexp(random() % 2 == 0 ? magnitude : -magnitude, static_cast<int>(random() % 15) - 10);
  }
  return values;
}

/// Hands gradients out and counts how often each is freed; a freed one is overwritten at once.
class GradientSource {
 public:
  ArrivedGradient hand_out(std::vector<std::uint8_t> elements) {
    n_freed_.push_back(0);
    const std::size_t id = n_freed_.size() - 1;
    auto kept = std::make_shared<std::vector<std::uint8_t>>(std::move(elements));  // owners: the test, through `free`
    return {kept->data(), [this, id, kept] {
              ++n_freed_[id];
              std::fill(kept->begin(), kept->end(), std::uint8_t{0x41});
            }};
  }
  void expect_each_freed_once() const {
    for (std::size_t id = 0; id < n_freed_.size(); ++id) EXPECT_EQ(n_freed_[id], 1) << "gradient " << id;
  }
  std::size_t n_handed_out() const { return n_freed_.size(); }
  auto n_freed() const { return std::count(n_freed_.begin(), n_freed_.end(), 1); }

 private:
  std::vector<int> n_freed_;
};

/// The sum of a tensor's gradients in fp32 from the first on, in the order of their arrival.
struct NaiveSum {
  void add(const std::vector<float>& gradient) {
    if (values.empty())
      values.assign(gradient.begin(), gradient.end());
    else
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const volatile float sum = values[i] + gradient[i];
        values[i] = sum;
      }
  }
  std::vector<float> values;
};

struct OptimizerWorld {
  struct Sizes {
    std::uint64_t chunk_bytes = 4096;
    std::uint64_t device_bytes = Budget::kUnlimited, host_bytes = Budget::kUnlimited;
    bool with_spill = true;
    bool deferred = false;       ///< copies end as late as possible, and leave poison until then
    bool speculates = false;     ///< there is room on the host for every update there to be speculative
    HostTeam* beside = nullptr;  ///< borrowed; updates beside the thread. Null: a team of its own, which is waited for
    test::Refusal* refusal = nullptr;  ///< refuses one allocation
    StateFormat format = {};
    SpillStore* spill = nullptr;  ///< borrowed; replaces the one in memory
    WaitLimits wait_limits = {};
  };

  OptimizerWorld(const std::vector<TensorSpec>& tensors, const Sizes& sizes)
      : specs(tensors),
        format(sizes.format),
        speculates(sizes.speculates),
        layout(plan_layout(tensors, {sizes.chunk_bytes})),
        tiers(sizes.device_bytes, sizes.host_bytes, sizes.with_spill, device_of(sizes), sizes.spill),
        mover(mover_parts_of(tiers, sizes)),
        scheduler(scheduler_parts(mover, tiers)),
        optimizer(
            OffloadOptimizer::make({layout, tiers.chunks, mover, scheduler, *tiers.device, *tiers.compute, *tiers.down,
                                    tiers.timeline, computed, registered, [this] { return n_until_interrupt-- == 0; },
                                    sizes.beside ? *sizes.beside : *own_team, sizes.beside != nullptr, sizes.format})
                .value()) {
    std::mt19937_64 random(99);
    for (const TensorSpec& spec : specs) {
      AdamData data(spec.numel, DType::f32, spec.dtype);
      data.master = random_gradient(random, spec.numel);
      if (!spec.trainable) data.master = widened(elements_of(data.master, spec.dtype), spec.dtype);
      data.weight = elements_of(data.master, spec.dtype);
      naive.push_back(std::move(data));
    }
    n_naive_updates.assign(specs.size(), 0);
  }

  static std::unique_ptr<Device> device_of(const Sizes& sizes) {
    if (sizes.refusal) return std::make_unique<test::RefusingDevice>(*sizes.refusal);
    return sizes.deferred ? test::make_deferred_device() : make_cpu_device();
  }

  static StatefulTensorMgr::Parts mover_parts_of(Tiers& tiers, const Sizes& sizes) {
    auto parts = mover_parts(tiers);
    parts.wait_limits = sizes.wait_limits;
    return parts;
  }

  static IndexedVector<RegisteredId, TensorId> in_order(const ChunkLayout& layout) {
    const auto all = layout.tensors.ids();
    return IndexedVector<RegisteredId, TensorId>({all.begin(), all.end()});
  }

  Result<void> start(std::vector<Tier> homes, std::vector<bool> streamed = {}) {
    CASTOR_TRY(adopt(std::move(homes), std::move(streamed)));
    return optimizer->io().initialise(
        {[this](TensorId tensor, std::uint64_t first, std::span<float> values) -> Result<void> {
          const auto& master = naive[index(tensor)].master;
          std::copy_n(master.begin() + static_cast<std::ptrdiff_t>(first), values.size(), values.begin());
          return {};
        }});
  }
  Result<void> start(Tier home) { return start(std::vector<Tier>(layout.chunks.size(), home)); }

  /// Without `streamed`, no states are.
  Result<void> adopt(std::vector<Tier> homes, std::vector<bool> streamed = {}) {
    StatePlacement plan;
    plan.states = IndexedVector<PayloadId, Tier>(std::move(homes));
    plan.streamed = IndexedVector<PayloadId, bool>(std::move(streamed));
    plan.streamed.resize(plan.states.size(), false);
    plan.payload_off_device.assign(plan.states.size(), false);
    for (const PayloadId chunk : plan.states.ids())
      plan.speculative.push_back(speculates && (may_speculate.empty() || may_speculate[chunk]) &&
                                 plan.states[chunk] == Tier::host && plan.update_tier(chunk) == Tier::host);
    return optimizer->adopt(std::move(plan));
  }

  /// Adds a gradient to the optimizer and to the straight lines.
  Result<void> gradient(std::uint32_t tensor, const std::vector<float>& values) {
    const auto elements = elements_of(values, specs[tensor].dtype);
    sums[tensor].add(widened(elements, specs[tensor].dtype));
    return optimizer->add_gradient(TensorId{tensor}, source.hand_out(elements));
  }

  /// One step of both. The straight lines use the scale that the optimizer found, which the caller checks.
  Result<StepScale> step(const StepOptions& options) {
    auto scale = optimizer->step(options);
    if (!scale.ok()) return scale;
    for (auto& [tensor, sum] : sums) {
      if (scale->skip) continue;
      naive[tensor].grad = elements_of(sum.values, DType::f32);
      const std::uint64_t t = ++n_naive_updates[tensor];
      const bool grouped = !options.groups.empty();
      const UpdateOptions& own = grouped ? options.groups[options.group_of[TensorId{tensor}]] : options.update;
      float trust = 1;
      const UpdateNumber update = {t, RegisteredId{tensor}, format.rounding_seed, &trust};
      const auto coefficients = update_coefficients(own, update, scale->grad_scale);
      if (const auto terms = trust_terms(own, scale->grad_scale))
        trust = naive_trust_of(tensor, *terms, coefficients, sum.values);
      straight_line_update(coefficients, naive[tensor], format.moments);
    }
    sums.clear();
    return scale;
  }

  /// LAMB's is of masters and direction, LARS's of weights and gradient.
  float naive_trust_of(std::uint32_t tensor, const TrustTerms& terms, const UpdateCoefficients& coefficients,
                       const std::vector<float>& gradient) const {
    const AdamData& data = naive[tensor];
    if (const auto* const lamb = std::get_if<LambCoefficients>(&coefficients))
      return naive_trust(terms, data.master, straight_line_direction(*lamb, data));
    return naive_trust(terms, widened(data.weight, specs[tensor].dtype), gradient);
  }

  Result<void> read_master(std::uint32_t tensor, std::vector<float>& out) {
    StateValues all{0, out.size(), out.data()};
    return optimizer->io().read(TensorId{tensor}, all);
  }

  /// The values of `tensor` in the chunks, fetched to the host from any tier.
  AdamData held(std::uint32_t tensor) {
    const TensorPlace& place = layout.tensors[TensorId{tensor}];
    AdamData data(place.numel, DType::f32, specs[tensor].dtype);
    StateValues states{0, place.numel, data.master.data(), data.exp_avg.data(), data.exp_avg_sq.data(), 0};
    optimizer->io().read(TensorId{tensor}, states).value();
    EXPECT_EQ(states.n_updates, n_naive_updates[tensor]);
    const BufferView weights = mover.look(optimizer->states().payload(place.chunk), Tier::host).value();
    std::memcpy(data.weight.data(), weights.data + place.offset * size_bytes(data.weight_dtype), data.weight.size());
    return data;
  }

  void expect_same_bits() {
    for (std::uint32_t tensor = 0; tensor < specs.size(); ++tensor) {
      SCOPED_TRACE("tensor " + std::to_string(tensor));
      testing::expect_same_bits(held(tensor), naive[tensor]);
    }
  }

  const std::vector<TensorSpec> specs;
  const StateFormat format;
  const bool speculates;
  IndexedVector<PayloadId, bool> may_speculate;  ///< where it is empty, all
  const ChunkLayout layout;
  IndexedVector<RegisteredId, TensorId> registered = in_order(layout);
  int n_until_interrupt = -1;  ///< calls that return false first; below 0: all do
  const std::unique_ptr<HostTeam> own_team = make_host_team(2).value();
  Tiers tiers;
  StatefulTensorMgr mover;
  Scheduler scheduler;
  StreamSpans computed{tiers.timeline, *tiers.compute};
  GradientSource source;  // outlives the optimizer, whose destructor frees gradients
  std::unique_ptr<OffloadOptimizer> optimizer;
  std::vector<AdamData> naive;
  std::vector<std::uint64_t> n_naive_updates;
  std::map<std::uint32_t, NaiveSum> sums;
};

}  // namespace castor::testing
