// SPDX-License-Identifier: Apache-2.0
#include <castor/training/step_order.h>

#include <array>
#include <cstddef>
#include <string>

namespace castor {
namespace {

using State = StepOrder::State;
using Call = StepOrder::Call;
using enum StepOrder::State;

constexpr std::size_t kNStates = 7, kNCalls = 11;

/// The state after a call, or the sentence that refuses it.
struct Rule {
  State next = fresh;
  const char* refused = nullptr;
};

constexpr Rule no(const char* sentence) { return {fresh, sentence}; }
constexpr Rule to(State next) { return {next, nullptr}; }

constexpr Rule kUnderWay = no("a step is under way; end it with step(), or drop it with zero_grad()");
constexpr Rule kTorn = no("the run was resumed in part only; resume it from a whole checkpoint");
constexpr Rule kFailed = no("a call of this step has failed; drop the step with zero_grad() and begin it anew");
constexpr Rule kNoGradients = no("step() without gradients: call backward() first");
constexpr Rule kHasNone = no("there are no gradients, which are there from backward() to step()");
constexpr Rule kHasLast = no("the step has had its last backward pass; call step(), or raise micro_batches");
constexpr Rule kUpdated =
    no("parameters may have been updated already in the last backward pass of the step; call step() before the next "
       "forward pass, or raise micro_batches; without a number no update begins before step()");
constexpr Rule kClipped = no(
    "the gradients of this step were clipped, after which they stay as they are; clip after the last backward pass and "
    "after set_grad, then call step()");

constexpr std::array<std::array<Rule, kNCalls>, kNStates> kRules = {{
    // resume; forward, backward, last_backward, clip, step; save, read, write; read_gradient, write_gradient
    {to(between), to(fresh), to(gathering), to(ended), kHasNone, kNoGradients, to(fresh), to(fresh), to(fresh),
     kHasNone, kHasNone},
    {to(between), to(between), to(gathering), to(ended), kHasNone, kNoGradients, to(between), to(between), to(between),
     kHasNone, kHasNone},
    {kUnderWay, to(gathering), to(gathering), to(ended), to(clipped), to(between), to(gathering), to(gathering),
     kUnderWay, to(gathering), to(gathering)},
    {kUnderWay, kUpdated, kHasLast, kHasLast, to(clipped), to(between), kUnderWay, kUnderWay, kUnderWay, to(ended),
     to(ended)},
    {kUnderWay, to(clipped), kClipped, kClipped, kClipped, to(between), to(clipped), to(clipped), kUnderWay,
     to(clipped), kClipped},
    {kFailed, kFailed, kFailed, kFailed, kFailed, kFailed, kFailed, kFailed, kFailed, kFailed, kFailed},
    {to(between), kTorn, kTorn, kTorn, kTorn, kTorn, kTorn, kTorn, kTorn, kTorn, kTorn},
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
