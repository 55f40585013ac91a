// SPDX-License-Identifier: Apache-2.0
#include "small_training.h"

#include <castor/engine/engine.h>

namespace castor::test {
namespace {

/// Values that bf16 holds exactly.
std::vector<float> small_values(std::int64_t n, std::uint32_t seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>((i * 7 + seed * 13) % 127 - 63) / 64);
  return values;
}

}  // namespace

EngineOptions SmallTraining::options() const {
  EngineOptions options;
  options.format.split_master = true;
  options.update_threads = 1;
  options.chunk_bytes = unit_bytes();
  return options;
}

std::unique_ptr<FakeModelHost> SmallTraining::make_host(DLDevice device) const {
  std::vector<FakeParam> params;
  std::vector<FakeUnit> units;
  for (std::uint32_t unit = 0; unit < shape_.n_units; ++unit) {
    params.push_back({"w" + std::to_string(unit), {shape_.numel}, kBf16, small_values(shape_.numel, unit)});
    units.push_back({"unit " + std::to_string(unit), {unit}});
  }
  return std::make_unique<FakeModelHost>(std::move(params), std::move(units), device);
}

DLManagedTensor* SmallTraining::make_gradient(FakeModelHost& host, std::uint32_t unit, std::uint32_t step) const {
  return host.make_gradient(unit, small_values(shape_.numel, 3 * unit + 29 * step + 1));
}

castor_step_args SmallTraining::step_args() const {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_ADAMW;
  args.lr = 0.01, args.beta1 = 0.9, args.beta2 = 0.99, args.eps = 1e-8, args.weight_decay = 0.1;
  args.loss_scale = 1, args.max_norm = shape_.max_norm;
  return args;
}

std::vector<SmallTraining::Call> SmallTraining::calls(Strategy& strategy, FakeModelHost& host, std::uint32_t step,
                                                      const std::function<void(std::uint32_t unit)>& computes) const {
  std::vector<Call> calls;
  const auto add = [&calls](const std::string& name, std::uint32_t unit, std::function<Result<void>()> make) {
    calls.push_back({name + " " + std::to_string(unit), std::move(make)});
  };
  const auto compute = [computes](std::uint32_t unit) {
    if (computes) computes(unit);
  };
  for (std::uint32_t unit = 0; unit < shape_.n_units; ++unit) {
    add("before_forward", unit, [&strategy, unit] { return strategy.before_forward(unit); });
    add("after_forward", unit, [&strategy, compute, unit] { return compute(unit), strategy.after_forward(unit); });
  }
  calls.push_back({"announce_step", [&strategy, this] { return strategy.announce_step(step_args()); }});
  for (std::uint32_t unit = shape_.n_units; unit-- > 0;) {
    add("before_backward", unit, [&strategy, unit] { return strategy.before_backward(unit); });
    add("gradient", unit, [&strategy, &host, compute, this, unit, step] {
      return compute(unit), strategy.gradient(unit, make_gradient(host, unit, step));
    });
    add("after_backward", unit, [&strategy, unit] { return strategy.after_backward(unit); });
  }
  calls.push_back({"end_of_backward", [&strategy] { return strategy.end_of_backward(); }});
  calls.push_back({"step", [&strategy, this]() -> Result<void> {
                     const auto stepped = strategy.step(step_args());
                     return stepped.ok() ? Result<void>() : stepped.error();
                   }});
  return calls;
}

Result<void> SmallTraining::run(Strategy& strategy, FakeModelHost& host, std::uint32_t first, std::uint32_t end,
                                const std::function<void(std::uint32_t unit)>& computes) const {
  for (std::uint32_t step = first; step < end; ++step)
    for (const Call& call : calls(strategy, host, step, computes)) CASTOR_TRY(call.make());
  return {};
}

Result<void> SmallTraining::run_micro_batch(Strategy& strategy, FakeModelHost& host, std::uint32_t step,
                                            const std::function<void(std::uint32_t unit)>& computes) const {
  for (const Call& call : calls(strategy, host, step, computes))
    if (call.name != "announce_step" && call.name != "step") CASTOR_TRY(call.make());
  return {};
}

Result<std::vector<std::vector<float>>> SmallTraining::masters(Strategy& strategy) const {
  std::vector<std::vector<float>> found;
  for (std::uint32_t unit = 0; unit < shape_.n_units; ++unit) {
    found.emplace_back(static_cast<std::size_t>(shape_.numel));
    CASTOR_TRY(strategy.read_master(unit, found.back().data()));
  }
  return found;
}

std::vector<std::vector<float>> SmallTraining::expected(std::uint32_t n_steps) const {
  const auto host = make_host();
  const auto engine = Engine::make(*host, options()).value();
  engine->attach().value();
  run(*engine, *host, 0, n_steps).value();
  return masters(*engine).value();
}

}  // namespace castor::test
