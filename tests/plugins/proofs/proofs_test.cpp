// SPDX-License-Identifier: Apache-2.0
// Two plugins in plain C that train over ranks and stages, each against a naive computation: the ABI is enough for
// both.
#include <castor/plugins/booster.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <random>

#include "fake_model_host.h"
#include "thread_group.h"

namespace castor {
namespace {

using test::FakeModelHost;
using test::FakeParam;
using test::ThreadGroup;
using Values = std::vector<float>;

Result<std::unique_ptr<Strategy>> boost(const char* file, FakeModelHost& host) {
  CASTOR_ASSIGN(const Plugin plugin, PluginLoader("", {}).load(file));
  CASTOR_ASSIGN(const Booster booster, Booster::make(plugin, {}));
  return booster.boost(host);
}

castor_step_args step_args(castor_optimizer optimizer) {
  auto args = blank<castor_step_args>();
  args.optimizer = optimizer;
  args.lr = 0.1, args.beta1 = 0.9, args.beta2 = 0.99, args.eps = 1e-8, args.weight_decay = 0.01, args.loss_scale = 1;
  return args;
}

Values random_values(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  Values values(n);
  std::ranges::generate(values, [&] { return value(random); });
  return values;
}

// ---- ZeRO-1 over two ranks

/// Parameters that divide evenly, unevenly, and not at all; "expert" gets gradients on rank 1 alone, "idle" none.
const std::vector<FakeParam> kParams = {{"w", {8, 8}, test::kFp32, random_values(64, 1)},
                                        {"b", {7}, test::kFp32, random_values(7, 2)},
                                        {"scale", {1}, test::kFp32, {0.5f}},
                                        {"expert", {5}, test::kFp32, random_values(5, 3)},
                                        {"idle", {3}, test::kFp32, random_values(3, 4)}};
const std::vector<test::FakeUnit> kUnits = {{"all", {0, 1, 2, 3, 4}}};
constexpr std::uint32_t kExpert = 3, kIdle = 4, kSteps = 4;

bool has_gradient(std::uint32_t param, std::uint32_t rank) { return param != kIdle && (param != kExpert || rank == 1); }

/// The gradient of `param` that rank `rank` gets in step `step`.
Values gradient(std::uint32_t param, std::uint32_t step, std::uint32_t rank) {
  return random_values(kParams[param].init.size(), 100 + 10 * step + 2 * param + rank);
}

/// Masters after kSteps steps of one rank that gets the gradients of both, in the order of ranks.
std::vector<Values> by_one_rank(const castor_step_args& args) {
  FakeModelHost host(kParams, kUnits);
  const auto strategy = boost(MINIMAL_C, host).value();
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    for (std::uint32_t param = 0; param < kParams.size(); ++param)
      for (const std::uint32_t rank : {0u, 1u})
        if (has_gradient(param, rank))
          strategy->gradient(param, host.make_gradient(param, gradient(param, step, rank))).value();
    strategy->end_of_backward().value();
    strategy->step(args).value();
  }
  std::vector<Values> masters;
  for (std::uint32_t param = 0; param < kParams.size(); ++param)
    strategy->read_master(param, masters.emplace_back(kParams[param].init.size()).data()).value();
  return masters;
}

/// The parts of the masters that each of two ranks keeps, put together, and the weights of both.
struct Divided {
  std::vector<Values> masters;
  std::vector<Values> weights[2];
  std::uint64_t n_kept[2] = {};
  std::mutex mutex;
};

Result<void> read_parts(Strategy& strategy, std::uint32_t rank, Divided& into) {
  for (std::uint32_t param = 0; param < kParams.size(); ++param) {
    CASTOR_ASSIGN(const castor_ranges ranges, strategy.values().owned_ranges(param));
    for (std::uint32_t i = 0; i < ranges.n; ++i) {
      const std::uint64_t first = ranges.first_and_end[2 * i], n = ranges.first_and_end[2 * i + 1] - first;
      CASTOR_TRY(strategy.values().read_masters(
          {sizeof(castor_values), param, first, n, CASTOR_FP32, into.masters[param].data() + first}));
      into.n_kept[rank] += n;
    }
  }
  return {};
}

void train_on_two_ranks(const castor_step_args& args, Divided& into) {
  for (const FakeParam& param : kParams) into.masters.emplace_back(param.init.size());
  const auto outcome = test::on_ranks(2, [&](ThreadGroup& group, std::uint32_t rank) -> Result<void> {
    FakeModelHost host(kParams, kUnits);
    host.join(group);
    CASTOR_ASSIGN(const auto strategy, boost(ZERO1, host));
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      for (std::uint32_t param = 0; param < kParams.size(); ++param)
        if (has_gradient(param, rank))
          CASTOR_TRY(strategy->gradient(param, host.make_gradient(param, gradient(param, step, rank))));
      CASTOR_TRY(strategy->end_of_backward());
      CASTOR_TRY(strategy->step(args));
    }
    const std::lock_guard lock(into.mutex);
    for (std::uint32_t param = 0; param < kParams.size(); ++param) into.weights[rank].push_back(host.weights(param));
    return read_parts(*strategy, rank, into);
  });
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
}

TEST(ZeRO1InC, TwoRanksHaveTheBitsOfOne) {
  const auto args = step_args(CASTOR_ADAMW);
  Divided found;
  train_on_two_ranks(args, found);
  const auto expected = by_one_rank(args);
  EXPECT_EQ(found.masters, expected);
  EXPECT_EQ(found.weights[0], expected) << "fp32 weights are their masters, gathered";
  EXPECT_EQ(found.weights[1], expected);
  EXPECT_EQ(expected[kIdle], kParams[kIdle].init) << "a parameter without a gradient on any rank is left alone";
  EXPECT_NE(expected[kExpert], kParams[kExpert].init);
  EXPECT_EQ(found.n_kept[0], 32u + 4 + 1 + 3 + 2);
  EXPECT_EQ(found.n_kept[1], 32u + 3 + 0 + 2 + 1);
}

TEST(ZeRO1InC, TheNormIsThatOfAllRanks) {
  auto args = step_args(CASTOR_ADAMW);
  args.max_norm = 0.5;
  Divided found;
  train_on_two_ranks(args, found);
  const auto expected = by_one_rank(args);
  for (std::size_t param = 0; param < kParams.size(); ++param)
    for (std::size_t i = 0; i < expected[param].size(); ++i)
      EXPECT_NEAR(found.masters[param][i], expected[param][i], 1e-6) << "sums of squares in another order";
}

TEST(ZeRO1InC, MastersOfAnotherRankAreRefused) {
  const auto outcome = test::on_ranks(2, [&](ThreadGroup& group, std::uint32_t rank) -> Result<void> {
    FakeModelHost host(kParams, kUnits);
    host.join(group);
    CASTOR_ASSIGN(const auto strategy, boost(ZERO1, host));
    Values values(64);
    const auto refused = strategy->read_master(0, values.data());
    EXPECT_FALSE(refused.ok()) << "rank " << rank;
    if (!refused.ok()) {
      EXPECT_EQ(refused.error().message,
                "zero1: this rank does not keep these masters; ask owned_ranges which it does");
    }
    return {};
  });
  EXPECT_TRUE(outcome.ok());
}

TEST(ZeRO1InC, AFailureOfOneRankEndsTheOther) {
  const auto outcome = test::on_ranks(2, [&](ThreadGroup& group, std::uint32_t rank) -> Result<void> {
    FakeModelHost host(kParams, kUnits);
    host.join(group);
    CASTOR_ASSIGN(const auto strategy, boost(ZERO1, host));
    if (rank == 1) return Error{ErrorKind::failed, "rank 1 ran out of data"};
    CASTOR_TRY(strategy->gradient(0, host.make_gradient(0, gradient(0, 0, 0))));
    CASTOR_TRY(strategy->end_of_backward());
    return strategy->step(step_args(CASTOR_ADAMW)).ok() ? Result<void>() : group.status(0);
  });
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().message, "the group has ended: rank 1 ran out of data");
}

TEST(Ranks, APluginOfOneRankIsRefusedAmongSeveral) {
  test::ThreadWorld world(1);
  ThreadGroup group(world, 0);
  FakeModelHost host(kParams, kUnits);
  host.join(group);
  const auto refused = boost(MINIMAL_C, host);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message,
            "plugin minimal_c trains on one rank alone; start one process, or choose another plugin");
}

TEST(Ranks, APluginThatDividesStatesIsRefusedOnOne) {
  FakeModelHost host(kParams, kUnits);
  const auto refused = boost(ZERO1, host);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "zero1 divides states among ranks, and there is one");
}

// ---- GPipe over two stages: loss = 1/2 * sum((x * v * w)^2), v in stage 0 and w in stage 1, element by element

constexpr std::size_t kWidth = 6;
constexpr std::uint32_t kMicroBatches = 3;

Values input(std::uint32_t step, std::uint32_t micro_batch) {
  return random_values(kWidth, 500 + 10 * step + micro_batch);
}

Values times(const Values& a, const Values& b) {
  Values product(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) product[i] = a[i] * b[i];
  return product;
}

double half_square(const Values& y) {
  double sum = 0;
  for (const float value : y) sum += 0.5 * double(value) * double(value);
  return sum;
}

/// Both stages in one place, with plain SGD; gradients add up from the last micro-batch to the first.
struct Naive {
  Values v, w;
  double loss(std::uint32_t step) const {
    double sum = 0;
    for (std::uint32_t micro = 0; micro < kMicroBatches; ++micro)
      sum += half_square(times(times(input(step, micro), v), w));
    return sum;
  }
  void train(std::uint32_t step, float lr) {
    Values dv(kWidth), dw(kWidth);
    for (std::uint32_t micro = kMicroBatches; micro-- > 0;) {
      const Values x = input(step, micro), h = times(x, v), y = times(h, w);
      const Values of_w = times(y, h), of_v = times(times(y, w), x);
      for (std::size_t i = 0; i < kWidth; ++i) dw[i] += of_w[i], dv[i] += of_v[i];
    }
    for (std::size_t i = 0; i < kWidth; ++i) v[i] -= lr * dv[i], w[i] -= lr * dw[i];
  }
};

/// One stage of the toy, and the tensors that it hands over.
class ToyStage final : public StageCalls {
 public:
  ToyStage(FakeModelHost& host, std::uint32_t stage) : host_(host), stage_(stage) {}
  void connect(Strategy& strategy) { strategy_ = &strategy; }
  void begin(std::uint32_t step) { step_ = step, saved_.assign(kMicroBatches, {}); }

  Result<const std::uint32_t*> held_stages(std::uint32_t& n) override {
    n = 1;
    return static_cast<const std::uint32_t*>(&stage_);
  }
  Result<void> run_stage(castor_stage_call& call) override {
    const Values weights = host_.weights(0);
    Values taken = call.n_in > 0 ? take(*call.in[0]) : Values();
    if (call.action == CASTOR_FORWARD) {
      Saved& saved = saved_.at(call.micro_batch);
      saved.in = stage_ == 0 ? input(step_, call.micro_batch) : std::move(taken);
      saved.out = times(saved.in, weights);
      call.loss = stage_ == 1 ? half_square(saved.out) : 0;
      return stage_ == 0 ? hand_over(call, saved.out) : Result<void>();
    }
    const Saved& saved = saved_.at(call.micro_batch);
    const Values of_out = stage_ == 1 ? saved.out : taken;
    CASTOR_TRY(strategy_->gradient(0, host_.make_gradient(0, times(of_out, saved.in))));
    CASTOR_TRY(strategy_->end_of_backward());
    return stage_ == 1 ? hand_over(call, times(of_out, weights)) : Result<void>();
  }

 private:
  struct Saved {
    Values in, out;
  };

  static Values take(DLManagedTensor& tensor) {
    const auto* const data = static_cast<const float*>(tensor.dl_tensor.data);
    Values values(data, data + tensor.dl_tensor.shape[0]);
    tensor.deleter(&tensor);
    return values;
  }
  Result<void> hand_over(castor_stage_call& call, const Values& values) {
    out_ = host_.make_gradient(0, values);
    call.n_out = 1, call.out = &out_;
    return {};
  }

  FakeModelHost& host_;
  const std::uint32_t stage_;
  Strategy* strategy_ = nullptr;
  std::uint32_t step_ = 0;
  std::vector<Saved> saved_;
  DLManagedTensor* out_ = nullptr;
};

TEST(GPipeInC, TwoStagesHaveTheLossesAndBitsOfOne) {
  const Values first[2] = {random_values(kWidth, 21), random_values(kWidth, 22)};
  std::vector<double> losses;
  Values weights[2];
  const auto outcome = test::on_ranks(2, [&](ThreadGroup& group, std::uint32_t rank) -> Result<void> {
    FakeModelHost host({{rank == 0 ? "v" : "w", {kWidth}, test::kFp32, first[rank]}}, {{"stage", {0}}});
    ToyStage stage(host, rank);
    host.join(group, &stage);
    CASTOR_ASSIGN(const auto strategy, boost(GPIPE, host));
    stage.connect(*strategy);
    for (std::uint32_t number = 0; number < kSteps; ++number) {
      stage.begin(number);
      castor_pipeline_step step = {sizeof step, kMicroBatches, 2, 0, 0};
      CASTOR_TRY(strategy->run_step(step));
      CASTOR_TRY(strategy->step(step_args(CASTOR_SGD)));
      if (rank == 1) losses.push_back(step.loss);
    }
    castor_pipeline_step evaluation = {sizeof evaluation, kMicroBatches, 2, 1, 0};
    stage.begin(0);
    CASTOR_TRY(strategy->run_step(evaluation));
    if (rank == 1) losses.push_back(evaluation.loss);
    weights[rank] = host.weights(0);
    return {};
  });
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  Naive naive{first[0], first[1]};
  std::vector<double> expected;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    expected.push_back(naive.loss(step));
    naive.train(step, 0.1f);
  }
  expected.push_back(naive.loss(0));
  EXPECT_EQ(losses, expected);
  EXPECT_EQ(weights[0], naive.v);
  EXPECT_EQ(weights[1], naive.w);
}

TEST(GPipeInC, AModelWithoutStagesIsRefused) {
  FakeModelHost host(kParams, kUnits);
  const auto refused = boost(GPIPE, host);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "gpipe needs the stages of a pipeline, and there are none");
}

}  // namespace
}  // namespace castor
