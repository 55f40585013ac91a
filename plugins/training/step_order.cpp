// SPDX-License-Identifier: Apache-2.0
#include <castor/training/step_order.h>

#include <array>
#include <cstddef>
#include <string>

namespace castor {
namespace {

using State = StepOrder::State;
using Call = StepOrder::Call;

constexpr std::size_t kNStates = 6, kNCalls = 7;

/// The state after a call, or the sentence that refuses it.
struct Rule {
  State next = State::fresh;
  const char* refused = nullptr;
};

constexpr Rule no(const char* sentence) { return {State::fresh, sentence}; }
constexpr Rule to(State next) { return {next, nullptr}; }

constexpr Rule kUnderWay = no("a step is under way; end it with step(), or drop it with zero_grad()");
constexpr Rule kTorn = no("the run was resumed in part only; resume it from a whole checkpoint");
constexpr Rule kTooLate = no("a run is resumed before the first step; boost the model anew to continue another one");
constexpr Rule kFailed = no("a call of this step has failed; drop the step with zero_grad() and begin it anew");
constexpr Rule kNoGradients = no("step() without gradients: call backward() first");
constexpr Rule kHasLast = no("the step has had its last backward pass; call step(), or raise micro_batches");

constexpr Rule kUpdated = no(
    "parameters may have been updated already in the last backward pass of the step; call step() before the next "
    "forward pass, or raise micro_batches; without a number (in C++ values_may_change) no update begins before step()");

constexpr std::array<std::array<Rule, kNCalls>, kNStates> kRules = {{
    // resume, forward, backward, last_backward, step, save, weights
    {to(State::between), to(State::fresh), to(State::gathering), to(State::ended), kNoGradients,
     no("nothing was trained yet that could be saved; save after the first step"), to(State::fresh)},
    {kTooLate, to(State::between), to(State::gathering), to(State::ended), kNoGradients, to(State::between),
     to(State::between)},
    {kTooLate, to(State::gathering), to(State::gathering), to(State::ended), to(State::between), kUnderWay, kUnderWay},
    {kTooLate, kUpdated, kHasLast, kHasLast, to(State::between), kUnderWay, kUnderWay},
    {kTooLate, kFailed, kFailed, kFailed, kFailed, kFailed, kFailed},
    {to(State::between), kTorn, kTorn, kTorn, kTorn, kTorn, kTorn},
}};

const Rule& rule_of(State state, Call call) {
  return kRules[static_cast<std::size_t>(state)][static_cast<std::size_t>(call)];
}

}  // namespace

Result<void> StepOrder::check(Call call) const {
  const char* const refused = rule_of(state_, call).refused;
  return refused == nullptr ? Result<void>() : Error{ErrorKind::usage, refused};
}

void StepOrder::done(Call call) {
  const Rule& rule = rule_of(state_, call);
  if (rule.refused != nullptr) throw ContractViolation(std::string("StepOrder: ") + rule.refused);
  state_ = rule.next;
  if (state_ == State::between) rest_ = state_;
}

}  // namespace castor
