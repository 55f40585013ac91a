// SPDX-License-Identifier: Apache-2.0
#include <castor/standalone/tensor_optimizer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "../../support/scratch_folder.h"

namespace castor {
namespace {

/// A few tensors, one of several tiles, with weights and gradients of a fixed seed.
struct World {
  std::vector<TrainedTensor> tensors;
  std::vector<std::vector<float>> weights;  ///< fp32, the values that weights of fewer bits begin with
  explicit World(DType dtype = DType::f32) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (const std::uint64_t n : {std::uint64_t{1}, std::uint64_t{1000}, (std::uint64_t{1} << 20) + 13}) {
      tensors.push_back({dtype, n});
      auto& values = weights.emplace_back(n);
      for (std::size_t i = 0; i < n; ++i) values[i] = i < 4099 ? normal(random) : values[i - 4099];
    }
  }
  std::vector<float> gradient(std::size_t tensor, int step) const {
    std::vector<float> values(tensors[tensor].n);
    const std::size_t n_drawn = std::min<std::size_t>(values.size(), 977);
    for (std::size_t i = 0; i < n_drawn; ++i)
      values[i] = 0.1F * std::sin(static_cast<float>(i) + static_cast<float>(step) + static_cast<float>(tensor));
    for (std::size_t first = n_drawn; first < values.size(); first += n_drawn)
      std::copy_n(values.begin(), std::min(n_drawn, values.size() - first),
                  values.begin() + static_cast<std::ptrdiff_t>(first));
    return values;
  }
};

std::vector<std::byte> stored(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_bytes(dtype));
  round_weights(values.data(), dtype, bytes.data(), values.size());
  return bytes;
}

std::string folder() {
  static const test::ScratchFolder made;
  return made.path();
}

/// Weights after `n_steps`, and the states.
struct Trained {
  std::vector<std::vector<std::byte>> weights;
  std::vector<std::vector<float>> exp_avg, exp_avg_sq, master;
};

Trained train(const World& world, const TensorOptimizerOptions& options, const UpdateOptions& rule, int n_steps,
              bool corrects_bias = true) {
  auto optimizer = TensorOptimizer::make(world.tensors, options).value();
  Trained found;
  for (std::size_t id = 0; id < world.tensors.size(); ++id)
    found.weights.push_back(stored(world.weights[id], world.tensors[id].dtype));
  for (int step = 0; step < n_steps; ++step) {
    std::vector<std::vector<float>> gradients;
    std::vector<TensorUpdate> updates;
    for (std::uint32_t id = 0; id < world.tensors.size(); ++id) gradients.push_back(world.gradient(id, step));
    for (std::uint32_t id = 0; id < world.tensors.size(); ++id)
      updates.push_back({id, found.weights[id].data(), gradients[id].data(), DType::f32, rule, corrects_bias});
    optimizer->step(updates, 0.5).value();
  }
  for (std::uint32_t id = 0; id < world.tensors.size(); ++id) {
    const std::size_t n = world.tensors[id].n;
    found.exp_avg.emplace_back(n), found.exp_avg_sq.emplace_back(n), found.master.emplace_back(n);
    TensorStates states{found.master[id].data(), found.exp_avg[id].data(), found.exp_avg_sq[id].data(), 0};
    optimizer->read(id, found.weights[id].data(), states).value();
    EXPECT_EQ(states.n_updates, static_cast<std::uint64_t>(n_steps));
  }
  return found;
}

constexpr AdamOptions kAdam = {.lr = 0.01, .weight_decay = 0.1};

/// AdamW in double precision, within the error of fp32.
TEST(TensorOptimizer, UpdatesByAdamsFormula) {
  const World world;
  const Trained found = train(world, {.n_threads = 2}, kAdam, 3);
  for (std::size_t id = 0; id < world.tensors.size(); ++id) {
    const std::vector gradients = {world.gradient(id, 0), world.gradient(id, 1), world.gradient(id, 2)};
    for (std::size_t i = 0; i < world.tensors[id].n; i += 101) {
      double p = world.weights[id][i], m = 0, v = 0;
      for (int t = 1; t <= 3; ++t) {
        const double g = 0.5 * gradients[static_cast<std::size_t>(t - 1)][i];
        m = 0.9 * m + 0.1 * g, v = 0.999 * v + 0.001 * g * g;
        p -= 0.01 * 0.1 * p;
        p -= 0.01 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
      }
      float weight = 0;
      std::memcpy(&weight, found.weights[id].data() + 4 * i, 4);
      EXPECT_NEAR(weight, p, 1e-5) << id << ' ' << i;
      EXPECT_NEAR(found.exp_avg[id][i], m, 1e-6);
      EXPECT_EQ(found.master[id][i], weight);
    }
  }
}

TEST(TensorOptimizer, KeepsTheBitsWhereverStatesAreAndHoweverManyThreadsUpdate) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const World world(dtype);
    for (const UpdateOptions& rule : {UpdateOptions(kAdam), UpdateOptions(SgdOptions{.lr = 0.1, .momentum = 0.9})}) {
      TensorOptimizerOptions options{.keeps_exp_avg_sq = keeps_exp_avg_sq(rule), .folders = {folder()}};
      const Trained expected = train(world, options, rule, 3);
      for (const double fraction : {0.3, 1.0}) {
        options.nvme_fraction = fraction, options.n_threads = 3;
        const Trained found = train(world, options, rule, 3);
        EXPECT_EQ(found.weights, expected.weights) << name(dtype) << ' ' << fraction;
        EXPECT_EQ(found.exp_avg, expected.exp_avg);
        EXPECT_EQ(found.exp_avg_sq, expected.exp_avg_sq);
        EXPECT_EQ(found.master, expected.master);
      }
    }
  }
}

/// A 16-bit weight is its master rounded, and the masters go on as those of fp32 weights that begin with the same values.
TEST(TensorOptimizer, KeepsMastersOf16BitWeights) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    World world(dtype), in_fp32;
    for (std::size_t id = 0; id < world.weights.size(); ++id) {
      const auto bits = stored(world.weights[id], dtype);
      widen_weights(bits.data(), dtype, in_fp32.weights[id].data(), in_fp32.weights[id].size());
    }
    const Trained found = train(world, {}, kAdam, 3), expected = train(in_fp32, {}, kAdam, 3);
    EXPECT_EQ(found.master, expected.master);
    for (std::size_t id = 0; id < world.tensors.size(); ++id)
      EXPECT_EQ(found.weights[id], stored(expected.master[id], dtype));
  }
}

/// Weights that the program sets between steps are the masters from then on, and the others keep theirs. Without a
/// gradient and with plain SGD a step changes nothing, whatever the bits.
TEST(TensorOptimizer, MastersFollowWeightsThatTheProgramChanges) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const World world(dtype);
    auto optimizer = TensorOptimizer::make(world.tensors, {.keeps_exp_avg_sq = false}).value();
    std::vector<std::byte> bytes = stored(world.weights[1], dtype);
    const std::vector<float> gradient = world.gradient(1, 0), none(1000);
    const auto step = [&](const std::vector<float>& grad) {
      const std::vector<TensorUpdate> updates = {
          {1, bytes.data(), grad.data(), DType::f32, SgdOptions{.lr = 0.1}, true}};
      optimizer->step(updates).value();
    };
    const auto masters = [&] {
      std::vector<float> values(1000), exp_avg(1000);
      TensorStates states{values.data(), exp_avg.data(), nullptr, 0};
      optimizer->read(1, bytes.data(), states).value();
      return values;
    };
    step(gradient);
    std::vector<float> expected = masters();
    auto* const weights = reinterpret_cast<std::uint16_t*>(bytes.data());
    for (std::size_t i = 0; i < 1000; i += 3) weights[i] = 0, expected[i] = 0;
    weights[1] = 0xc000, expected[1] = -2;  // in both dtypes
    const std::vector<std::byte> set = bytes;
    step(none);
    EXPECT_EQ(masters(), expected) << name(dtype);
    EXPECT_EQ(bytes, set) << name(dtype);
  }
}

TEST(TensorOptimizer, StatesThatAreWrittenGoOnAsTheyWere) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const World world(dtype);
    TensorOptimizerOptions options{.folders = {folder()}, .nvme_fraction = 0.5};
    const Trained two = train(world, options, kAdam, 2), three = train(world, options, kAdam, 3);
    auto other = TensorOptimizer::make(world.tensors, options).value();
    auto weights = two.weights;
    std::vector<std::vector<float>> gradients;
    std::vector<TensorUpdate> updates;
    for (std::uint32_t id = 0; id < world.tensors.size(); ++id) gradients.push_back(world.gradient(id, 2));
    for (std::uint32_t id = 0; id < world.tensors.size(); ++id) {
      auto master = two.master[id], exp_avg = two.exp_avg[id], exp_avg_sq = two.exp_avg_sq[id];
      other->write(id, weights[id].data(), {master.data(), exp_avg.data(), exp_avg_sq.data(), 2}).value();
      updates.push_back({id, weights[id].data(), gradients[id].data(), DType::f32, kAdam, true});
    }
    other->step(updates, 0.5).value();
    EXPECT_EQ(weights, three.weights) << name(dtype);
  }
}

/// As if the moments had been averaged over many updates: the first step of Adam is lr·(1−b1)·g / (sqrt((1−b2)·g²) + eps).
TEST(TensorOptimizer, LeavesTheBiasWhereItIsAsked) {
  World world;
  const Trained found = train(world, {}, AdamOptions{.lr = 0.01}, 1, false);
  const std::vector<float> gradient = world.gradient(1, 0);
  for (std::size_t i = 0; i < 1000; ++i) {
    const double g = 0.5 * gradient[i];
    float weight = 0;
    std::memcpy(&weight, found.weights[1].data() + 4 * i, 4);
    EXPECT_NEAR(weight, world.weights[1][i] - 0.01 * 0.1 * g / (std::sqrt(0.001 * g * g) + 1e-8), 1e-5);
  }
}

/// LAMB's step is as long as its ratio times the weights: ‖Δp‖ = lr·‖p‖ without decay.
TEST(TensorOptimizer, MeasuresWholeTensorsForLamb) {
  const World world;
  const Trained found = train(world, {}, LambOptions{.lr = 0.01}, 1);
  double moved = 0, length = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    float weight = 0;
    std::memcpy(&weight, found.weights[1].data() + 4 * i, 4);
    moved += std::pow(weight - world.weights[1][i], 2), length += std::pow(world.weights[1][i], 2);
  }
  EXPECT_NEAR(std::sqrt(moved), 0.01 * std::sqrt(length), 1e-4);
}

TEST(TensorOptimizer, RefusesWhatCannotBe) {
  const World world;
  const auto refused = [&](const TensorOptimizerOptions& options) {
    return TensorOptimizer::make(world.tensors, options).error();
  };
  EXPECT_EQ(refused({.nvme_fraction = 2}).message.substr(0, 27), "nvme_offload_fraction is 2.");
  EXPECT_EQ(refused({.nvme_fraction = 1}).message, "nvme_offload_fraction is set, but no folder is named");
  EXPECT_EQ(refused({.folders = {"/nowhere/at/all"}, .nvme_fraction = 1}).kind, ErrorKind::io);
  auto optimizer = TensorOptimizer::make(world.tensors, {.folders = {folder()}, .nvme_fraction = 1}).value();
  float weight = 1, grad = 1;
  const TensorUpdate update{0, &weight, &grad, DType::f32, kAdam, true};
  const std::vector<TensorUpdate> twice = {update, update};
  EXPECT_EQ(optimizer->step(twice).error().kind, ErrorKind::usage);
  const std::vector<TensorUpdate> lamb = {{0, &weight, &grad, DType::f32, LambOptions{}, true}};
  EXPECT_EQ(optimizer->step(lamb).error().kind, ErrorKind::usage);
  EXPECT_EQ(weight, 1);
  const std::vector<TensorUpdate> once = {update};
  EXPECT_TRUE(optimizer->step(once).ok());
}

}  // namespace
}  // namespace castor
