// SPDX-License-Identifier: Apache-2.0
// Moves of chunks computed the slow way, sharing no line with the planner.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include <castor/plan/move_planner.h>

namespace castor::test {

inline constexpr Places kOnDevice = 1, kOnHost = 2, kOnNvme = 4;

/// The least cost of having copies in exactly `to` after `from`, by Dijkstra's algorithm over single steps: one copy
/// over one link, or one copy dropped. Infinity where it is impossible.
double naive_step_seconds(Places from, Places to, const LinkCosts& costs);

/// Cost of `plan` with the cheapest copies between its stays. Infinity where the plan asks for something impossible: a
/// use without its copy, more than the room.
double naive_plan_seconds(const MoveProblem& problem, const MovePlan& plan);

/// The least cost of all plans, by trying them: after each use a chunk stays on the device or moves to the host, whose
/// room is unlimited. Nothing where no plan fits the device. Requires: uses on the device, at most 20 in all.
std::optional<double> least_seconds_of_two_tiers(const MoveProblem& problem);

/// The least cost of all plans over three tiers, by trying all sets of tiers at and after every use.
std::optional<double> least_seconds_of_three_tiers(const MoveProblem& problem);

struct RandomSizes {
  std::uint32_t most_chunks, most_moments, most_uses;
};

/// An iteration in which chunks of up to three sizes are used at random. It depends only on the state of `random`, not
/// on the compiler.
MoveProblem random_problem(std::mt19937_64& random, const RandomSizes& sizes);

}  // namespace castor::test
