// SPDX-License-Identifier: Apache-2.0
// The plugin in plain C trains through the Booster: against an independent reference in double, and bit by bit against
// the rules.
#include "adam_rules.h"
#include "fake_model_host.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <random>

namespace castor {
namespace {

using test::FakeModelHost;
using Vector = std::vector<float>;

std::unique_ptr<Strategy> boost(FakeModelHost& model) {
  return Booster::make(PluginLoader("", {}).load(MINIMAL_C).value(), {}).value().boost(model).value();
}

castor_step_args adamw_args() {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_ADAMW;
  args.lr = 0.05;
  args.beta1 = 0.9;
  args.beta2 = 0.999;
  args.eps = 1e-8;
  args.weight_decay = 0.01;
  args.loss_scale = 1;
  return args;
}

Vector master(Strategy& strategy, std::uint32_t param, std::size_t n) {
  Vector values(n);
  strategy.read_master(param, values.data()).value();
  return values;
}

void expect_same_bits(const Vector& found, const Vector& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(std::memcmp(&found[i], &expected[i], sizeof(float)), 0)
        << what << " [" << i << "]: " << found[i] << " against " << expected[i];
}

// ---- a small least-squares problem ----

/// y = X·(2, −3, 4) + 5 on 16 points; the loss is half the mean square of the error. The parameters start so far from
/// there that no gradient gets near zero within 20 steps of 0.05 each.
struct LeastSquares {
  static constexpr int kN = 16;
  double x[kN][3], y[kN];

  LeastSquares() {
    for (int i = 0; i < kN; ++i) {
      for (int j = 0; j < 3; ++j) x[i][j] = std::sin(1.0 + 1.7 * i + 2.3 * j);
      y[i] = 2 * x[i][0] - 3 * x[i][1] + 4 * x[i][2] + 5;
    }
  }

  template <typename T>
  double loss_and_gradient(const T* w, double b, double* gradient) const {
    double loss = 0;
    std::fill(gradient, gradient + 4, 0.0);
    for (int i = 0; i < kN; ++i) {
      const double error = x[i][0] * w[0] + x[i][1] * w[1] + x[i][2] * w[2] + b - y[i];
      loss += 0.5 * error * error / kN;
      for (int j = 0; j < 3; ++j) gradient[j] += error * x[i][j] / kN;
      gradient[3] += error / kN;
    }
    return loss;
  }
};

/// Adam in double as the papers write it (corrected moments), so that it shares no formula with the code under test.
struct ReferenceAdamW {
  double p[4], m[4] = {}, v[4] = {};
  void update(const castor_step_args& a, const double* g, int t) {
    for (int j = 0; j < 4; ++j) {
      m[j] += (1 - a.beta1) * (g[j] - m[j]);
      v[j] += (1 - a.beta2) * (g[j] * g[j] - v[j]);
      const double m_hat = m[j] / (1 - std::pow(a.beta1, t)), v_hat = v[j] / (1 - std::pow(a.beta2, t));
      p[j] -= a.lr * a.weight_decay * p[j] + a.lr * m_hat / (std::sqrt(v_hat) + a.eps);
    }
  }
};

/// The least size of a gradient on the way; asserted, since the tolerance rests on it.
constexpr double kLeastGradient = 0.88;

/// A step of the plugin makes an error of at most 1.6e-7: two roundings of p (|p| < 2, 6e-8 each) and about 12 relative
/// roundings of 6e-8 in s·(m/d), which is 0.05. An error e of the parameters comes back through the gradients: these
/// change by at most 2.5 e (a row of the Hessian: four means of products of sines and ones), m/d by 2.5 e / 0.88, p by
/// 0.05 times that, 0.14 e. So after 20 steps 1.6e-7 · (1.14^20 − 1) / 0.14 = 1.5e-5.
constexpr double kTolerance = 1.5e-5;

TEST(MinimalC, FollowsAReferenceInDoubleOnLeastSquares) {
  const LeastSquares problem;
  FakeModelHost model({{"w", {3}, test::kFp32, {0.5f, -0.25f, 0.125f}}, {"b", {1}, test::kFp32, {1}}},
                      {{"linear", {0, 1}}});
  auto strategy = boost(model);
  ReferenceAdamW reference{{0.5, -0.25, 0.125, 1}};
  double loss = 0, gradient[4];
  const double first_loss = problem.loss_and_gradient(model.weights(0).data(), 1, gradient);
  for (int t = 1; t <= 20; ++t) {
    loss = problem.loss_and_gradient(model.weights(0).data(), model.weights(1)[0], gradient);
    strategy->gradient(0, model.make_gradient(0, {float(gradient[0]), float(gradient[1]), float(gradient[2])})).value();
    strategy->gradient(1, model.make_gradient(1, {float(gradient[3])})).value();
    strategy->end_of_backward().value();
    strategy->step(adamw_args()).value();
    double reference_gradient[4];
    EXPECT_NEAR(loss, problem.loss_and_gradient(reference.p, reference.p[3], reference_gradient), 20 * kTolerance)
        << "step " << t;
    for (const double g : reference_gradient) EXPECT_GT(std::abs(g), kLeastGradient);
    reference.update(adamw_args(), reference_gradient, t);
    for (int j = 0; j < 3; ++j)
      EXPECT_NEAR(model.weights(0)[j], reference.p[j], kTolerance) << "step " << t << " w " << j;
    EXPECT_NEAR(model.weights(1)[0], reference.p[3], kTolerance) << "step " << t;
  }
  EXPECT_LT(loss, 0.75 * first_loss);
  EXPECT_EQ(model.n_live_gradients(), 0);
}

TEST(MinimalC, RepeatsTheRulesBitByBitOnLeastSquares) {
  const LeastSquares problem;
  FakeModelHost model({{"w", {3}, test::kFp32, {0.5f, -0.25f, 0.125f}}, {"b", {1}, test::kFp32, {1}}},
                      {{"linear", {0, 1}}});
  auto strategy = boost(model);
  test::RuleTensor w({0.5f, -0.25f, 0.125f}), b({1});
  for (int t = 1; t <= 20; ++t) {
    double gradient[4];
    problem.loss_and_gradient(w.master.data(), b.master[0], gradient);
    const Vector grad_w = {float(gradient[0]), float(gradient[1]), float(gradient[2])}, grad_b = {float(gradient[3])};
    strategy->gradient(0, model.make_gradient(0, grad_w)).value();
    strategy->gradient(1, model.make_gradient(1, grad_b)).value();
    strategy->end_of_backward().value();
    EXPECT_EQ(strategy->step(adamw_args()).value().grad_norm, -1);  // the step needs no norm
    w.update(adamw_args(), 1, grad_w);
    b.update(adamw_args(), 1, grad_b);
    expect_same_bits(model.weights(0), w.master, "w after step " + std::to_string(t));
    expect_same_bits(model.weights(1), b.master, "b after step " + std::to_string(t));
  }
}

// ---- bf16, micro-batches, clipping, loss scale, tensors without gradient, skipped steps ----

constexpr std::size_t kLong = 70001;  // two blocks of the norm, the second one short
constexpr std::size_t kShort = 300;   // two rows, the second one short

/// Random values that are exact in bf16, in [-1, 1) and of sizes so different that the order of their sum shows in
/// fp64.
Vector random_bf16(std::mt19937& random, std::size_t n) {
  Vector values(n);
  for (float& value : values)
    value =
        std::ldexp(static_cast<float>(static_cast<int>(random() % 256) - 128), -7 - static_cast<int>(random() % 24));
  return values;
}

Vector random_fp32(std::mt19937& random, std::size_t n) {
  Vector values(n);
  for (float& value : values) value = std::ldexp(static_cast<float>(random()), -32) - 0.5f;
  return values;
}

Vector widened(const Vector& masters) {
  Vector values(masters.size());
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const std::uint32_t bits = std::uint32_t{test::nearest_bf16(masters[i])} << 16;
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  return values;
}

Vector plus(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// The plugin on a long and a short bf16 tensor, beside the rules for both. Reproduce a failure with its seed.
struct Rig {
  explicit Rig(unsigned seed)
      : random(seed),
        rules{test::RuleTensor(random_fp32(random, kLong)), test::RuleTensor(random_fp32(random, kShort))},
        model(
            {{"long", {kLong}, test::kBf16, rules[0].master}, {"short", {3, kShort / 3}, test::kBf16, rules[1].master}},
            {{"both", {0, 1}}}),
        strategy(boost(model)) {}

  void give(std::uint32_t param, const Vector& values) {
    strategy->gradient(param, model.make_gradient(param, values)).value();
  }
  Result<castor_step_result> step(const castor_step_args& args) {
    CASTOR_TRY(strategy->end_of_backward());
    return strategy->step(args);
  }
  Vector gradient(std::uint32_t param) { return random_bf16(random, rules[param].master.size()); }

  void expect_rules(const std::string& when) {
    for (std::uint32_t param : {0u, 1u}) {
      const std::string what = when + ", parameter " + std::to_string(param);
      expect_same_bits(master(*strategy, param, rules[param].master.size()), rules[param].master, what + ": master");
      expect_same_bits(model.weights(param), widened(rules[param].master), what + ": weight");
    }
  }

  std::mt19937 random;
  std::array<test::RuleTensor, 2> rules;
  FakeModelHost model;
  std::unique_ptr<Strategy> strategy;
};

constexpr unsigned kSeed = 20261121;

TEST(MinimalC, StartsFromTheInitialValuesRoundedToBf16) { Rig(kSeed).expect_rules("after attach"); }

TEST(MinimalC, AddsMicroBatchesInFp32ThenClipsByTheNormOfBoth) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Rig rig(kSeed);
  castor_step_args args = adamw_args();
  args.max_norm = 0.0078125;
  args.loss_scale = 1024;
  for (int step = 0; step < 8; ++step) {
    std::array<Vector, 2> sums = {Vector(kLong), Vector(kShort)};
    for (const std::uint32_t param : {0u, 1u, 1u, 0u, 1u}) {
      const Vector values = rig.gradient(param);
      rig.give(param, values);
      sums[param] = plus(std::move(sums[param]), values);
    }
    const auto result = rig.step(args).value();
    const double norm = std::sqrt(test::sum_of_squares(sums[0]) + test::sum_of_squares(sums[1])) / 1024;
    ASSERT_GT(norm, args.max_norm);
    const double clip = args.max_norm / (norm + 1e-6);
    EXPECT_EQ(result.grad_norm, norm);
    EXPECT_EQ(result.skipped, 0);
    for (const std::uint32_t param : {0u, 1u}) rig.rules[param].update(args, 1.0 / 1024 * clip, sums[param]);
    rig.expect_rules("step " + std::to_string(step));
  }
}

/// The first square is 2^54, where doubles are 4 apart, the others are 1. In the first row it meets sums of 1 and of 2,
/// which vanish, then of 4, 8, … 128: 252 are left. The 255 other rows of its block add 256 each, the second block
/// 4465, which makes 2^54 + 69997 and rounds to 69996. Another order loses more or fewer.
TEST(MinimalC, AddsSquaresInTheFixedOrder) {
  Vector values(kLong, 1);
  values[0] = 0x1p27f;
  FakeModelHost model({{"w", {kLong}, test::kFp32, Vector(kLong)}}, {{"u", {0}}});
  auto strategy = boost(model);
  castor_step_args args = adamw_args();
  args.max_norm = 1;
  strategy->gradient(0, model.make_gradient(0, values)).value();
  strategy->end_of_backward().value();
  EXPECT_EQ(strategy->step(args).value().grad_norm, std::sqrt(0x1p54 + 69996));
}

TEST(MinimalC, DoesNotEnlargeASmallGradient) {
  Rig rig(kSeed);
  castor_step_args args = adamw_args();
  args.max_norm = 1e6;
  const Vector values = rig.gradient(1);
  rig.give(1, values);
  rig.step(args).value();
  rig.rules[1].update(args, 1, values);
  rig.expect_rules("one step under a generous norm");
}

TEST(MinimalC, AddsDecayToTheGradientInPlainAdam) {
  Rig rig(kSeed);
  castor_step_args args = adamw_args();
  args.optimizer = CASTOR_ADAM;
  for (const std::uint32_t param : {0u, 1u}) {
    const Vector values = rig.gradient(param);
    rig.give(param, values);
    rig.rules[param].update(args, 1, values);
  }
  rig.step(args).value();
  rig.expect_rules("one step of Adam");
}

TEST(MinimalC, FollowsTheRulesOfSgd) {
  for (const std::int32_t nesterov : {0, 1}) {
    Rig rig(kSeed);
    castor_step_args args = adamw_args();
    args.optimizer = CASTOR_SGD;
    args.momentum = 0.9, args.nesterov = nesterov, args.max_value = 0.25 * nesterov;
    for (int step = 0; step < 3; ++step) {
      for (const std::uint32_t param : {0u, 1u}) {
        const Vector values = rig.gradient(param);
        rig.give(param, values);
        rig.rules[param].update(args, 1, values);
      }
      rig.step(args).value();
      rig.expect_rules("step " + std::to_string(step) + " of SGD");
    }
  }
}

TEST(MinimalC, FollowsTheRulesOfLars) {
  Rig rig(kSeed);
  castor_step_args args = adamw_args();
  args.optimizer = CASTOR_LARS;
  args.momentum = 0.9, args.trust_coefficient = 0.02, args.loss_scale = 8;
  for (int step = 0; step < 3; ++step) {
    for (const std::uint32_t param : {0u, 1u}) {
      const Vector values = rig.gradient(param);
      rig.give(param, values);
      const double ratio = test::lars_ratio(args, 0.125, widened(rig.rules[param].master), values);
      rig.rules[param].update(args, 0.125, values, ratio);
    }
    rig.step(args).value();
    rig.expect_rules("step " + std::to_string(step) + " of LARS");
  }
}

TEST(MinimalC, FollowsTheRulesOfLamb) {
  Rig rig(kSeed);
  castor_step_args args = adamw_args();
  args.optimizer = CASTOR_LAMB;
  args.loss_scale = 8;
  for (int step = 0; step < 3; ++step) {
    for (const std::uint32_t param : {0u, 1u}) {
      const Vector values = rig.gradient(param);
      rig.give(param, values);
      rig.rules[param].update(args, 0.125, values);
    }
    rig.step(args).value();
    rig.expect_rules("step " + std::to_string(step) + " of LAMB");
  }
}

/// `args` with the values of `group` for all parameters.
castor_step_args as_in(const castor_param_group& group, castor_step_args args) {
  args.lr = group.lr, args.beta1 = group.beta1, args.beta2 = group.beta2, args.eps = group.eps;
  args.weight_decay = group.weight_decay;
  return args;
}

TEST(MinimalC, GivesEachParameterTheValuesOfItsGroup) {
  for (const castor_optimizer optimizer : {CASTOR_ADAMW, CASTOR_ADAM}) {
    Rig rig(kSeed);
    castor_step_args args = adamw_args();
    args.optimizer = optimizer;
    const castor_param_group first = {sizeof first, 0.5, 0.8, 0.9, 1e-4, 0},
                             second = {sizeof second, 0.01, 0.95, 0.99, 1e-8, 0.25};
    const castor_param_group* const groups[] = {&first, &second};
    const std::uint32_t group_of[] = {1, 0};
    args.n_groups = 2, args.groups = groups, args.group_of = group_of;
    for (int step = 0; step < 3; ++step) {
      for (const std::uint32_t param : {0u, 1u}) {
        const Vector values = rig.gradient(param);
        rig.give(param, values);
        rig.rules[param].update(as_in(*groups[group_of[param]], args), 1, values);
      }
      rig.step(args).value();
      rig.expect_rules("step " + std::to_string(step));
    }
  }
}

TEST(MinimalC, ClampsUnscaledGradients) {
  for (const castor_optimizer optimizer : {CASTOR_ADAMW, CASTOR_ADAM}) {
    Rig rig(kSeed);
    castor_step_args args = adamw_args();
    args.optimizer = optimizer;
    args.loss_scale = 4;
    args.max_value = 0.0625;
    for (const std::uint32_t param : {0u, 1u}) {
      const Vector values = rig.gradient(param);
      rig.give(param, values);
      rig.rules[param].update(args, 0.25, values);
    }
    rig.step(args).value();
    rig.expect_rules("one clamped step");
  }
}

TEST(MinimalC, LeavesATensorWithoutGradientAlone) {
  Rig rig(kSeed);
  const castor_step_args args = adamw_args();
  for (const std::uint32_t with_gradient :
       {0u, 1u, 1u, 0u}) {  // each counts its own updates: the last is the second of parameter 0
    const Vector values = rig.gradient(with_gradient);
    rig.give(with_gradient, values);
    rig.step(args).value();
    rig.rules[with_gradient].update(args, 1, values);
    rig.expect_rules("gradient of " + std::to_string(with_gradient) + " only");
  }
}

class MinimalCSkips : public ::testing::TestWithParam<float> {};

TEST_P(MinimalCSkips, AStepWhoseGradientsAreNotFinite) {
  Rig rig(kSeed);
  castor_step_args args = adamw_args();
  args.loss_scale = 2;
  Vector values = rig.gradient(0);
  values[kLong - 1] = GetParam();
  rig.give(0, values);
  rig.give(1, rig.gradient(1));
  EXPECT_EQ(rig.step(args).value().skipped, 1);
  rig.expect_rules("after the skipped step");
  const Vector sound = rig.gradient(1);  // the skipped gradient is dropped, and its step counts no update
  rig.give(1, sound);
  EXPECT_EQ(rig.step(args).value().skipped, 0);
  rig.rules[1].update(args, 0.5, sound);
  rig.expect_rules("after the next step");
}

INSTANTIATE_TEST_SUITE_P(Values, MinimalCSkips,
                         ::testing::Values(std::numeric_limits<float>::infinity(),
                                           -std::numeric_limits<float>::infinity(), std::bit_cast<float>(0x7fc00000u)));

// ---- rounding, bytes, refusals ----

TEST(MinimalC, RoundsMastersToTheNearestBf16AwayFromZero) {
  const std::vector<std::uint32_t> masters = {0x3f818000, 0x3f828000, 0x3f817fff, 0xbf818000,
                                              0x7f7fffff, 0x7f800000, 0xffc12345, 0x00008000};
  const std::vector<std::uint32_t> rounded = {0x3f82, 0x3f83, 0x3f81, 0xbf82, 0x7f80, 0x7f80, 0x7fc0, 0x0001};
  Vector init(masters.size());
  std::memcpy(init.data(), masters.data(), masters.size() * sizeof(float));
  FakeModelHost model({{"w", {static_cast<std::int64_t>(init.size())}, test::kBf16, init}}, {{"u", {0}}});
  const auto strategy = boost(model);
  const auto* halves = static_cast<const std::uint16_t*>(model.bound(0));
  for (std::size_t i = 0; i < rounded.size(); ++i) EXPECT_EQ(halves[i], rounded[i]) << std::hex << masters[i];
}

TEST(MinimalC, CountsItsBytesInTheDeviceTier) {
  FakeModelHost model({{"w", {300}, test::kBf16, Vector(300)}, {"b", {1}, test::kFp32, {1}}}, {{"u", {0, 1}}});
  const castor_stats stats = boost(model)->stats().value();
  EXPECT_EQ(stats.used_bytes[0], 1024u + 300 * 16 + 512 + 16);  // weights in multiples of 512, four fp32 arrays
  EXPECT_EQ(stats.peak_bytes[0], stats.used_bytes[0]);
  EXPECT_EQ(stats.used_bytes[1] + stats.used_bytes[2], 0u);
  EXPECT_EQ(stats.budget_bytes[0], UINT64_MAX);
  EXPECT_EQ(stats.struct_size, sizeof stats);
}

TEST(MinimalC, UnbindsWhatItBoundWhenDestroyed) {
  FakeModelHost model({{"w", {2}, test::kFp32, {1, 2}}}, {{"u", {0}}});
  auto strategy = boost(model);
  EXPECT_NE(model.bound(0), nullptr);
  strategy.reset();
  EXPECT_EQ(model.bound(0), nullptr);
}

TEST(MinimalC, RefusesFp16) {
  FakeModelHost model({{"w", {1}, test::kFp16, {1}}}, {{"u", {0}}});
  const auto refused = Booster::make(PluginLoader("", {}).load(MINIMAL_C).value(), {}).value().boost(model);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message,
            "minimal_c trains fp32 and bf16 parameters only; choose `precision` bf16 or another plugin");
}

TEST(MinimalC, RefusesAGradientOfTheWrongLayoutAndDeletesIt) {
  FakeModelHost model({{"w", {2, 3}, test::kFp32, Vector(6)}, {"v", {2}, test::kFp32, Vector(2)}}, {{"u", {0, 1}}});
  auto strategy = boost(model);
  std::int64_t transposed[] = {1, 2}, rows[] = {3, 1};
  DLManagedTensor* const columns_first = model.make_gradient(0, Vector(6));
  columns_first->dl_tensor.strides = transposed;
  EXPECT_FALSE(strategy->gradient(0, columns_first).ok());
  DLManagedTensor* const rows_first = model.make_gradient(0, Vector(6));
  rows_first->dl_tensor.strides = rows;
  EXPECT_TRUE(strategy->gradient(0, rows_first).ok());
  EXPECT_FALSE(strategy->gradient(1, model.make_gradient(0, Vector(6))).ok());
  EXPECT_EQ(model.n_live_gradients(), 0);
}

}  // namespace
}  // namespace castor
