// SPDX-License-Identifier: Apache-2.0
// Random models, budgets, homes and trainings against a plain reference implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "../../support/seeds.h"
#include "optimizer_world.h"

namespace castor {
namespace {

using testing::OptimizerWorld;
using testing::random_gradient;

using testing::kAllTypes;

std::vector<TensorSpec> random_tensors(std::mt19937_64& random) {
  std::vector<TensorSpec> tensors(1 + random() % 10);
  for (TensorSpec& tensor : tensors) tensor = {1 + random() % 700, kAllTypes[random() % 3], random() % 5 != 0};
  return tensors;
}

/// Room for the update of the largest chunk, tile by tile, with widened gradients, and sometimes for more.
OptimizerWorld::Sizes random_sizes(std::mt19937_64& random, const std::vector<TensorSpec>& tensors) {
  OptimizerWorld::Sizes sizes{std::uint64_t{1024} << random() % 4};
  std::uint64_t least_bytes = 0;
  for (const ChunkShape& shape : plan_layout(tensors, {sizes.chunk_bytes}).chunks)
    least_bytes = std::max(least_bytes, shape.tile_numel * 12 + shape.numel * (4 + size_bytes(shape.dtype)));
  sizes.device_bytes = least_bytes + (random() % 2) * (random() % (3 * least_bytes));
  sizes.host_bytes = least_bytes + (random() % 2) * (random() % (3 * least_bytes));
  return sizes;
}

/// Most trainings split masters, some have moments in 16 bits, and a third are SGD's with one moment.
StateFormat random_format(std::mt19937_64& random) {
  constexpr MomentFormat kMoments[] = {MomentFormat::f32, MomentFormat::f32, MomentFormat::mixed, MomentFormat::bf16};
  const bool split = random() % 4 != 0;
  return {split, kMoments[random() % 4], random(), random() % 3 != 0};
}

/// A random third of the chunks is streamed.
std::vector<bool> random_streams(std::mt19937_64& random, std::size_t n_chunks) {
  std::vector<bool> streamed(n_chunks);
  for (std::size_t i = 0; i < n_chunks; ++i) streamed[i] = random() % 3 == 0;
  return streamed;
}

std::vector<Tier> random_homes(std::mt19937_64& random, std::size_t n_chunks) {
  std::vector<Tier> homes(n_chunks);
  for (Tier& home : homes) home = kTiers[random() % 3];
  return homes;
}

void start_anywhere(OptimizerWorld& world, std::mt19937_64& random) {
  const std::size_t n_chunks = world.layout.chunks.size();
  world.start(random_homes(random, n_chunks), random_streams(random, n_chunks)).value();
}

/// The options that all groups of a step share.
struct Common {
  bool flag = false;  ///< decoupled decay, Nesterov's momentum
  double max_value = 0;
  bool trusts = false;  ///< LAMB; or LARS, most of whose groups have ratios
};

AdamOptions random_adam(std::mt19937_64& random, const Common& common) {
  constexpr double kRates[] = {0, 1e-3, 1e-2}, kDecays[] = {0, 0.1}, kBetas[] = {0.8, 0.9, 0.95}, kEps[] = {1e-8, 1e-3};
  return {kRates[random() % 3],  kBetas[random() % 3], kBetas[random() % 3], kEps[random() % 2],
          kDecays[random() % 2], common.flag,          common.max_value};
}

SgdOptions random_sgd(std::mt19937_64& random, const Common& common) {
  constexpr double kRates[] = {0, 1e-3, 1e-2}, kDecays[] = {0, 0.1}, kMomenta[] = {0, 0.5, 0.9};
  const double trust_coefficient = common.trusts && random() % 4 != 0 ? 0.02 : 0;
  return {kRates[random() % 3],
          kMomenta[random() % 3],
          kDecays[random() % 2],
          common.flag,
          common.max_value,
          trust_coefficient,
          1e-8};
}

LambOptions random_lamb(std::mt19937_64& random) {
  const AdamOptions adam = random_adam(random, {});
  return {adam.lr, adam.beta1, adam.beta2, adam.eps, adam.weight_decay};
}

/// Options of Adam, LAMB or SGD, according to the states that are kept.
UpdateOptions random_update(std::mt19937_64& random, const StateFormat& format, const Common& common) {
  if (format.keeps_exp_avg_sq && common.trusts) return random_lamb(random);
  if (format.keeps_exp_avg_sq) return random_adam(random, common);
  return random_sgd(random, common);
}

/// Half of the steps clip, by norm or by value, and a third have groups, some of which may have no tensor.
StepOptions random_options(std::mt19937_64& random, const OptimizerWorld& world) {
  const bool flag = random() % 2 == 0, clips_values = random() % 3 == 0;
  const Common common = {flag, clips_values ? 0.25 : 0, !clips_values && random() % 2 == 0};
  StepOptions options{random_update(random, world.format, common), 0, 1};
  if (!clips_values && random() % 3 == 0) options.max_norm = random() % 2 == 0 ? 3 : 1e6;
  if (random() % 3 == 0) options.loss_scale = 256;
  if (random() % 3 != 0) return options;
  options.groups.resize(1 + random() % 4);
  for (UpdateOptions& group : options.groups) group = random_update(random, world.format, common);
  for (std::size_t tensor = 0; tensor < world.specs.size(); ++tensor)
    options.group_of.push_back(id_at<GroupId>(random() % options.groups.size()));
  return options;
}

/// Uses every parameter on the device, as a forward pass would, and expects the reference's weights there.
void forward(OptimizerWorld& world) {
  for (const PayloadId chunk : world.layout.chunks.ids()) {
    world.optimizer->use(chunk).value();
    const std::array needs = {Need{world.optimizer->states().payload(chunk), Tier::device, Access::read}};
    world.scheduler.begin({MomentKind::forward, number(chunk)}, needs).value();
    const std::byte* slot = world.tiers.chunks.chunk(needs[0].chunk).at(Tier::device).buffer.data();
    for (const TensorId tensor : world.layout.chunks[chunk].tensors) {
      const auto& wanted = world.naive[index(tensor)].weight;
      const std::byte* got = slot + world.layout.tensors[tensor].offset * size_bytes(world.layout.chunks[chunk].dtype);
      ASSERT_EQ(std::memcmp(got, wanted.data(), wanted.size()), 0) << "tensor " << number(tensor);
    }
    world.scheduler.end(needs);
  }
}

/// Some gradients, last tensor first; now and then one that overflowed, which only a step with a norm may meet. The
/// last backward pass is announced at times, and its complete chunks are updated at times.
void backward(OptimizerWorld& world, std::mt19937_64& random, const StepOptions& options) {
  const bool measured = options.needs_norm();
  for (std::uint64_t micro_batch = 1 + random() % 2; micro_batch > 0; --micro_batch) {
    if (micro_batch == 1 && random() % 4 != 0) world.optimizer->announce(options).value();
    for (std::uint32_t tensor = static_cast<std::uint32_t>(world.specs.size()); tensor-- > 0;) {
      if (!world.specs[tensor].trainable || random() % 12 == 0) continue;
      auto gradient = random_gradient(random, world.specs[tensor].numel);
      if (measured && random() % 40 == 0) gradient[0] = std::numeric_limits<float>::infinity();
      world.gradient(tensor, gradient).value();
      if (random() % 2 == 0) world.optimizer->update_early().value();
    }
  }
}

/// The norm of the unscaled sums, added up in plain order.
double naive_norm(const OptimizerWorld& world, double loss_scale) {
  double sum = 0;
  for (const auto& [tensor, gradient] : world.sums)
    for (const float value : gradient.values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum) / loss_scale;
}

void train_one_step(OptimizerWorld& world, std::mt19937_64& random) {
  forward(world);
  const StepOptions options = random_options(random, world);
  const bool measured = options.max_norm != 0 || options.loss_scale != 1;
  backward(world, random, options);
  const double norm = naive_norm(world, options.loss_scale);
  const StepScale scale = world.step(options).value();
  EXPECT_EQ(scale.skip, !std::isfinite(norm));
  if (scale.skip || !measured) return;
  EXPECT_NEAR(scale.grad_norm, norm, 1e-12 * norm);
  const double clip = options.max_norm == 0 ? 1 : std::min(1.0, options.max_norm / (norm + 1e-6));
  EXPECT_NEAR(scale.grad_scale, clip / options.loss_scale, 1e-12);
}

/// The team that updates on the host: threads that are waited for, threads beside the training thread, or some that are
/// as late as possible.
enum class Updates { here, beside, late };

/// Null where updates are waited for.
std::unique_ptr<HostTeam> team_for(Updates updates, std::uint64_t seed) {
  switch (updates) {
    case Updates::beside: return make_host_team(1 + seed % 3).value();
    case Updates::late: return std::make_unique<test::DeferredTeam>();
    default: return nullptr;
  }
}

/// Random tensors under random budgets; `speculates` gives room for every update on the host to be speculative.
struct RandomTraining {
  RandomTraining(Updates updates, std::uint64_t seed, bool speculates)
      : random(seed),
        tensors(random_tensors(random)),
        team(team_for(updates, seed)),
        sizes(random_sizes(random, tensors)) {
    sizes.deferred = seed % 2 == 0;
    sizes.format = random_format(random);
    sizes.beside = team.get();
    sizes.speculates = speculates;
    for (const ChunkShape& shape : plan_layout(tensors, {sizes.chunk_bytes}).chunks)
      sizes.host_bytes += speculates ? shape.numel * (12 + size_bytes(shape.dtype)) : 0;
    world.emplace(tensors, sizes);
    world->tiers.spill.block_bytes = 1000;
  }

  /// Ends the step.
  void expect_the_straight_line() {
    world->expect_same_bits();
    world->optimizer.reset();
    world->source.expect_each_freed_once();
    EXPECT_EQ(world->tiers.spill.n_wrong, 0) << "checksums that came with other bytes";
    EXPECT_LE(world->tiers.device_budget.peak_bytes(), sizes.device_bytes);
    EXPECT_LE(world->tiers.host_budget.peak_bytes(), sizes.host_bytes);
  }

  std::mt19937_64 random;
  std::vector<TensorSpec> tensors;
  std::unique_ptr<HostTeam> team;
  OptimizerWorld::Sizes sizes;
  std::optional<OptimizerWorld> world;
};

class RandomTrainings : public ::testing::TestWithParam<Updates> {};

TEST_P(RandomTrainings, UnderRandomBudgetsHaveTheBitsOfTheStraightLine) {
  for (std::uint64_t seed = 0; seed < test::n_seeds(150) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomTraining training(GetParam(), seed, /*speculates=*/seed % 3 != 0);
    auto& [random, tensors, team, sizes, world] = training;
    start_anywhere(*world, random);
    const std::size_t n_chunks = world->layout.chunks.size();
    for (int step = 0; step < 5; ++step) {
      train_one_step(*world, random);
      if (random() % 4 == 0) world->adopt(random_homes(random, n_chunks), random_streams(random, n_chunks)).value();
    }
    training.expect_the_straight_line();
  }
}

/// Events that take a speculative update back: another gradient, an evaluation, a caller that reads, another
/// announcement.
void disturb(OptimizerWorld& world, std::mt19937_64& random, StepOptions& options) {
  const auto tensor = static_cast<std::uint32_t>(random() % world.specs.size());
  switch (random() % 12) {
    case 0: return forward(world);
    case 1: return world.optimizer->announce(options).value();
    case 2: options.max_norm = 2; return;
    case 3: return (void)world.held(tensor);
    case 4:
      if (world.specs[tensor].trainable)
        world.gradient(tensor, random_gradient(random, world.specs[tensor].numel)).value();
      return;
    default: return;
  }
}

/// Adds every gradient, and updates all chunks that can be updated early. Most norms are not too large.
void train_one_regular_step(OptimizerWorld& world, std::mt19937_64& random, StepOptions options) {
  forward(world);
  options.loss_scale = 256;
  if (random() % 5 == 0) options.max_norm = 0.01;
  world.optimizer->announce(options).value();
  for (std::uint32_t tensor = static_cast<std::uint32_t>(world.specs.size()); tensor-- > 0;) {
    if (!world.specs[tensor].trainable) continue;
    auto gradient = random_gradient(random, world.specs[tensor].numel);
    if (random() % 60 == 0) gradient[0] = std::numeric_limits<float>::infinity();
    world.gradient(tensor, gradient).value();
    world.optimizer->update_early().value();
  }
  disturb(world, random, options);
  const double norm = naive_norm(world, options.loss_scale);
  const StepScale scale = world.step(options).value();
  EXPECT_EQ(scale.skip, !std::isfinite(norm));
}

TEST_P(RandomTrainings, SpeculatingOnTheNormHaveTheBitsOfTheStraightLine) {
  for (std::uint64_t seed = 0; seed < test::n_seeds(150) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomTraining training(GetParam(), seed, /*speculates=*/true);
    auto& [random, tensors, team, sizes, world] = training;
    world->start(Tier::host).value();
    StepOptions options;
    while (!options.needs_norm()) options = random_options(random, *world);
    for (int step = 0; step < 10; ++step) train_one_regular_step(*world, random, options);
    training.expect_the_straight_line();
  }
}

/// What the broken steps of a test have met.
struct Broken {
  int n_lost = 0;         ///< gradients
  int n_speculative = 0;  ///< steps that had speculative updates
};

/// Has a gradient of `tensor` arrive while those of its chunk cannot be read from the drive. Returns false where they
/// need not be read, so that it is not lost.
bool lose_gradient(OptimizerWorld& world, std::mt19937_64& random, std::uint32_t tensor) {
  const PayloadId chunk = world.layout.tensors[TensorId{tensor}].chunk;
  world.optimizer->use(chunk).value();  // makes the update that waits, which must not fail
  for (const Tier tier : {Tier::device, Tier::host})
    world.mover.push_down(world.optimizer->gradients().store().chunk(chunk), tier).value();
  (void)world.tiers.chunks.drain();  // it may report a gradient that was lost before
  for (const Tier tier : {Tier::device, Tier::host}) world.tiers.chunks.reap(tier).value();
  world.tiers.spill.fail_read = world.tiers.spill.n_reads + 1;
  const auto added = world.gradient(tensor, random_gradient(random, world.specs[tensor].numel));
  world.tiers.spill.fail_read = 0;
  return !added.ok();
}

/// Some gradients, last tensor first, of which one may be lost. Returns whether one was.
bool break_backward(OptimizerWorld& world, std::mt19937_64& random, const StepOptions& options) {
  const auto n_tensors = static_cast<std::uint32_t>(world.specs.size());
  const std::uint64_t loses_at = random() % (3 * n_tensors);
  bool lost = false;
  if (random() % 4 != 0) world.optimizer->announce(options).value();
  for (std::uint64_t i = 0, n = random() % (2 * n_tensors + 1); i < n; ++i) {
    const auto tensor = static_cast<std::uint32_t>(n_tensors - 1 - i % n_tensors);
    if (!world.specs[tensor].trainable) continue;
    if (!lost && i >= loses_at)
      lost = lose_gradient(world, random, tensor);
    else
      EXPECT_EQ(world.gradient(tensor, random_gradient(random, world.specs[tensor].numel)).ok(), !lost);
    if (options.needs_norm() && random() % 4 != 0) world.optimizer->update_early().value();  // else for good
  }
  return lost;
}

bool keeps_old_contents(const OptimizerWorld& world) {
  const auto all = world.tiers.chunks.ids();
  return std::any_of(all.begin(), all.end(), [&world](ChunkId id) {
    const Chunk& chunk = world.tiers.chunks.chunk(id);
    return chunk.kind == ChunkKind::undo && chunk.pinned();
  });
}

/// Begins a step that ends before its first update for good, and abandons it. The straight lines never see it.
void break_a_step(OptimizerWorld& world, std::mt19937_64& random, const StepOptions& options, Broken& met) {
  if (random() % 3 != 0) forward(world);
  const bool lost = break_backward(world, random, options);
  met.n_lost += lost ? 1 : 0;
  met.n_speculative += keeps_old_contents(world) ? 1 : 0;
  if (lost && random() % 2 == 0) {
    EXPECT_EQ(world.optimizer->step(options).error().kind, ErrorKind::io);
  } else if (!lost && !world.sums.empty() && !options.needs_norm() && random() % 2 == 0) {
    world.n_until_interrupt = 0;
    EXPECT_EQ(world.optimizer->step(options).error().kind, ErrorKind::interrupted);
  }
  world.optimizer->abandon().value();
  world.sums.clear();
}

TEST_P(RandomTrainings, RepeatingAbandonedStepsHaveTheBitsOfTheStraightLine) {
  Broken met;
  for (std::uint64_t seed = 0; seed < test::n_seeds(150) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool speculates = seed % 2 == 0;
    RandomTraining training(GetParam(), seed / 2, speculates);
    auto& [random, tensors, team, sizes, world] = training;
    speculates ? world->start(Tier::host).value() : start_anywhere(*world, random);
    StepOptions regular = random_options(random, *world);
    regular.loss_scale = 256;
    for (int step = 0; step < 6; ++step) {
      const StepOptions options = speculates ? regular : random_options(random, *world);
      for (std::uint64_t n = random() % 3; n > 0; --n) break_a_step(*world, random, options, met);
      speculates ? train_one_regular_step(*world, random, regular) : train_one_step(*world, random);
    }
    training.expect_the_straight_line();
  }
  EXPECT_GT(met.n_lost, 0);
  EXPECT_EQ(met.n_speculative > 0, GetParam() != Updates::here);
}

/// Copies the states of `from` to `to`, in pieces of random sizes.
void copy_states(OptimizerWorld& from, OptimizerWorld& to, std::mt19937_64& random) {
  for (std::uint32_t tensor = 0; tensor < from.specs.size(); ++tensor) {
    const std::uint64_t numel = from.specs[tensor].numel;
    std::uint64_t n = 0;
    for (std::uint64_t first = 0; first < numel; first += n) {
      n = std::min<std::uint64_t>(numel - first, 1 + random() % 400);
      std::vector<float> master(n), exp_avg(n), exp_avg_sq(n);
      StateValues states{first, n, master.data(), exp_avg.data(), exp_avg_sq.data(), 0};
      from.optimizer->io().read(TensorId{tensor}, states).value();
      EXPECT_EQ(states.n_updates, from.n_naive_updates[tensor]);
      to.optimizer->io().write(TensorId{tensor}, states).value();
    }
  }
  to.naive = from.naive;
  to.n_naive_updates = from.n_naive_updates;
}

TEST_P(RandomTrainings, GoOnElsewhereFromTheStatesThatWereRead) {
  for (std::uint64_t seed = 0; seed < test::n_seeds(20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto tensors = random_tensors(random);
    const auto sizes = [&] {
      auto found = random_sizes(random, tensors);
      found.deferred = random() % 2 == 0;
      return found;
    };
    const std::unique_ptr<HostTeam> team = team_for(GetParam(), seed);
    auto first = sizes(), second = sizes();
    first.beside = second.beside = team.get();
    first.format = second.format = random_format(random);
    second.format.split_master = !first.format.split_master;
    OptimizerWorld source(tensors, first), target(tensors, second);
    start_anywhere(source, random);
    start_anywhere(target, random);
    for (int step = 0; step < 3; ++step) train_one_step(source, random);
    if (seed % 2 == 0) train_one_step(target, random);
    copy_states(source, target, random);
    source.expect_same_bits();
    target.expect_same_bits();
    for (int step = 0; step < 3; ++step) train_one_step(target, random);
    target.expect_same_bits();
    EXPECT_LE(target.tiers.device_budget.peak_bytes(), second.device_bytes);
    EXPECT_LE(target.tiers.host_budget.peak_bytes(), second.host_bytes);
    if (::testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    OffloadOptimizer, RandomTrainings, ::testing::Values(Updates::here, Updates::beside, Updates::late),
    [](const auto& info) {
      return std::string(std::array{"here", "beside", "late"}.at(static_cast<std::size_t>(info.param)));
    });

}  // namespace
}  // namespace castor
