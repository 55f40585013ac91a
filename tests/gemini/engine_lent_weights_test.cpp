// SPDX-License-Identifier: Apache-2.0
// Weights outside of units: acquire and release.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "gpu_rig.h"
#include "scratch_folder.h"
#include "small_training.h"

namespace castor {
namespace {

using test::FakeModelHost;
using test::GpuRig;
using test::SmallTraining;

/// fp32 rounded to bf16 and back, half away from zero.
float in_bf16(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x8000u) & 0xffff0000u);
}

std::vector<float> in_bf16(std::vector<float> values) {
  for (float& value : values) value = in_bf16(value);
  return values;
}

/// A training on the host or on a fake GPU, whose device holds `n_units` of the four units.
struct Lender {
  explicit Lender(bool on_gpu, std::uint64_t n_units = 4, PlacementPolicy policy = PlacementPolicy::cpu,
                  const std::string& nvme = "") {
    host = training.make_host(on_gpu ? GpuRig::kWhere : DLDevice{kDLCPU, 0});
    if (on_gpu) host->allocate_from(rig.allocator);
    EngineOptions options = training.options();
    options.placement_policy = on_gpu ? PlacementPolicy::constant : policy;
    options.const_device_bytes = options.device_budget_bytes = n_units * training.unit_bytes();
    if (!nvme.empty()) options.nvme_folders = {nvme}, options.nvme_offload_fraction = 1;
    engine = on_gpu ? Engine::make(*host, options, rig.machine()).value() : Engine::make(*host, options).value();
    engine->attach().value();
  }
  castor_access access(std::uint32_t mode, std::uint32_t n) const {
    return {sizeof(castor_access), mode, n, kParams.data()};
  }
  /// Writes 16-bit patterns of numbers to the weights of `param`, which is bound.
  void overwrite(std::uint32_t param, std::uint16_t salt) {
    auto* weights = static_cast<std::uint16_t*>(const_cast<void*>(host->bound(param)));
    for (std::uint64_t i = 0; i < training.unit_bytes() / 2; ++i)
      weights[i] = static_cast<std::uint16_t>(0x3f00 + (i * 3 + salt) % 0x80);
  }
  std::vector<std::vector<float>> masters() { return training.masters(*engine).value(); }

  static constexpr std::array<std::uint32_t, 4> kParams = {0, 1, 2, 3};
  SmallTraining training;
  GpuRig rig;
  std::unique_ptr<FakeModelHost> host;
  std::unique_ptr<Engine> engine;
};

TEST(EngineLentWeights, AreThoseAfterTheLastStepAndStayBound) {
  for (const bool on_gpu : {false, true}) {
    Lender run(on_gpu);
    run.training.run(*run.engine, *run.host, 0, 3).value();
    const auto expected = run.masters();
    const castor_access access = run.access(CASTOR_READ, 4);
    run.engine->values().acquire(access).value();
    for (std::uint32_t param = 0; param < 4; ++param) {
      ASSERT_NE(run.host->bound(param), nullptr);
      EXPECT_EQ(run.host->weights(param), in_bf16(expected[param])) << param;
    }
    (void)run.engine->reclaim(1 << 30).value();
    EXPECT_NE(run.host->bound(0), nullptr) << "what is lent does not leave";
    run.engine->values().release(access).value();
    EXPECT_EQ(run.masters(), expected) << "reading changes nothing";
    run.training.run(*run.engine, *run.host, 3, 5).value();
    EXPECT_EQ(run.masters(), run.training.expected(5));
  }
}

/// From the first use of any unit on: a parameter whose own unit is never entered must not keep its first values.
TEST(EngineLentWeights, AllThatHaveRoomAreBoundWithTheFirstUnit) {
  for (const bool on_gpu : {false, true})
    for (const std::uint64_t n_units : {4u, 2u}) {
      Lender run(on_gpu, n_units);
      for (const std::uint32_t param : Lender::kParams)
        EXPECT_EQ(run.host->bound(param), nullptr) << "boosting can still be undone";
      run.engine->before_forward(0).value();
      const auto masters = run.masters();
      for (const std::uint32_t param : Lender::kParams) {
        ASSERT_EQ(run.host->bound(param) != nullptr, param < n_units) << param << ' ' << on_gpu;
        if (param < n_units) {
          EXPECT_EQ(run.host->weights(param), in_bf16(masters[param]));
        }
        const auto& calls = run.host->calls();
        const auto unbound = std::count_if(calls.begin(), calls.end(), [&](const std::string& call) {
          return call.starts_with("unbind w" + std::to_string(param) + ":");
        });
        EXPECT_EQ(unbound, 1) << param;
      }
    }
}

TEST(EngineLentWeights, ThatDoNotFitAtOnceAreLentOneByOne) {
  for (const bool on_gpu : {false, true}) {
    Lender run(on_gpu, 2);
    run.training.run(*run.engine, *run.host, 0, 2).value();
    const auto refused = run.engine->values().acquire(run.access(CASTOR_READ, 4));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
    for (const std::uint32_t param : Lender::kParams) {
      const castor_access one = {sizeof one, CASTOR_READ, 1, &param};
      run.engine->values().acquire(one).value();
      EXPECT_EQ(run.host->weights(param), in_bf16(run.masters()[param]));
      run.engine->values().release(one).value();
    }
    run.training.run(*run.engine, *run.host, 2, 4).value();
    EXPECT_EQ(run.masters(), run.training.expected(4));
  }
}

/// Written weights are the new masters of all that is lent, also of values that were not changed.
TEST(EngineLentWeights, ThatAreWrittenTrainAsMastersThatAreWritten) {
  const test::ScratchFolder nvme;
  struct Place {
    bool on_gpu;
    PlacementPolicy policy;
    std::string nvme;
  };
  const Place places[] = {{false, PlacementPolicy::cuda, ""},
                          {false, PlacementPolicy::cpu, ""},
                          {false, PlacementPolicy::cpu, nvme.path()},
                          {true, PlacementPolicy::cpu, ""}};
  for (const Place& place : places) {
    Lender lent(place.on_gpu, place.policy == PlacementPolicy::cuda ? 64 : 4, place.policy, place.nvme), stated(false);
    for (Lender* run : {&lent, &stated}) run->training.run(*run->engine, *run->host, 0, 2).value();
    const castor_access access = lent.access(CASTOR_WRITE, 3);
    lent.engine->values().acquire(access).value();
    lent.overwrite(1, 7);
    std::vector<std::vector<float>> weights;
    for (std::uint32_t param = 0; param < 3; ++param) weights.push_back(lent.host->weights(param));
    lent.engine->values().release(access).value();
    for (std::uint32_t param = 0; param < 3; ++param) {
      const auto n = weights[param].size();
      std::vector<float> master(n), exp_avg(n), exp_avg_sq(n);
      castor_param_state state = {sizeof state, param, 0, n, master.data(), exp_avg.data(), exp_avg_sq.data(), 0};
      stated.engine->values().read_state(state).value();
      master = weights[param];
      stated.engine->values().write_state(state).value();
    }
    EXPECT_EQ(lent.masters(), stated.masters());
    for (Lender* run : {&lent, &stated}) run->training.run(*run->engine, *run->host, 2, 4).value();
    EXPECT_EQ(lent.masters(), stated.masters());
  }
}

TEST(EngineLentWeights, OfAFrozenParameterAreKeptAsWritten) {
  FakeModelHost host({{"w", {4}, test::kBf16, {1, 1, 1, 1}}, {"base", {4}, test::kBf16, {2, 2, 2, 2}, false}},
                     {{"a", {0, 1}}});
  EngineOptions options;
  options.placement_policy = PlacementPolicy::cpu;
  const auto engine = Engine::make(host, options).value();
  engine->attach().value();
  const std::uint32_t base = 1;
  const castor_access access = {sizeof access, CASTOR_WRITE, 1, &base};
  engine->values().acquire(access).value();
  const std::uint16_t three = 0x4040;
  std::memcpy(const_cast<void*>(host.bound(base)), &three, 2);
  engine->values().release(access).value();
  std::vector<float> values(4);
  engine->read_master(base, values.data()).value();
  EXPECT_EQ(values, (std::vector<float>{3, 2, 2, 2}));
}

TEST(EngineLentWeights, WrongRequestsAreRefused) {
  Lender run(false);
  const std::uint32_t none = 4;
  const auto refused = [&](const Result<void>& outcome, const std::string& sentence) {
    ASSERT_FALSE(outcome.ok()) << sentence;
    EXPECT_EQ(outcome.error().kind, ErrorKind::usage);
    EXPECT_EQ(outcome.error().message, sentence);
  };
  ValueCalls& values = run.engine->values();
  refused(values.acquire({sizeof(castor_access), CASTOR_READ, 1, &none}),
          "the weights of parameter 4 were acquired; the model has 4");
  refused(values.acquire(run.access(7, 1)), "weights were acquired in mode 7; it is CASTOR_READ or CASTOR_WRITE");
  refused(values.release(run.access(CASTOR_READ, 1)),
          "weights of 1 parameters were released to read, which were not acquired so; release takes the values of its "
          "acquire");
  values.acquire(run.access(CASTOR_READ, 2)).value();
  refused(values.release(run.access(CASTOR_WRITE, 2)),
          "weights of 2 parameters were released to write, which were not acquired so; release takes the values of its "
          "acquire");
  values.acquire(run.access(CASTOR_READ, 1)).value();
  values.release(run.access(CASTOR_READ, 2)).value();
  values.release(run.access(CASTOR_READ, 1)).value();
  EXPECT_FALSE(values.release(run.access(CASTOR_READ, 1)).ok()) << "one release for each acquire";
}

}  // namespace
}  // namespace castor
