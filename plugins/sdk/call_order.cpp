// SPDX-License-Identifier: Apache-2.0
#include "call_order.h"

#include <bit>

namespace castor::sdk {
namespace {

struct StateWords {
  const char* name;
  const char* described;
  const char* way_out;  ///< of calls that are not made in this state; null: it depends on the call
};

constexpr const char* kStepOrDrop = "begin_step or discard_gradients must come first (step or zero_grad)";

constexpr std::array<StateWords, kNCallStates> kWords = {{
    {"created", "before attach", "attach must come first"},
    {"attached", "before the first step", nullptr},
    {"between", "between two steps", nullptr},
    {"announced", "after announce_step", "the backward pass that was announced must come first"},
    {"forward", "within a unit's forward pass", "after_forward must come first"},
    {"backward", "in a backward pass", "end_of_backward must come first"},
    {"gathered", "between backward and step", kStepOrDrop},
    {"complete", "after the last backward pass of the step", kStepOrDrop},
    {"lent", "while weights are lent", "release must come first (the end of castor.gathered)"},
}};

const StateWords& words(CallState state) { return kWords[static_cast<std::size_t>(state)]; }

/// The way out of a state in which most calls are in order.
const char* way_out_at_rest(CallStates allowed) {
  if (allowed == during::created) return "it is called once";
  if (allowed & during::before_step) return "end_of_backward must come first";
  if (allowed & during::lent) return "acquire must come first";
  return "it is called before the first step alone";
}

std::string list_of(CallStates states) {
  std::string text;
  for (std::uint32_t state = 0; state < kNCallStates; ++state)
    if (states & (CallStates{1} << state)) text += (text.empty() ? "" : ", ") + std::string(kWords[state].name);
  return text;
}

}  // namespace

Result<CallOrder::Turn> CallOrder::begin_turn(const char* name) {
  const std::thread::id own = std::this_thread::get_id();
  std::thread::id taken;
  if (turn_.compare_exchange_strong(taken, own)) return Turn(&turn_);
  if (taken == own) return Turn(nullptr);
  return Error{ErrorKind::usage, std::string(name) +
                                     " was called while another thread is in a call of the same model; calls come from "
                                     "one thread at a time"};
}

CallState CallOrder::state() const {
  if (n_lent_ > 0) return CallState::lent;
  return in_forward_ && base_ != CallState::backward ? CallState::forward : base_;
}

Error CallOrder::refusal(const CallNeed& rule, const char* name) const {
  const StateWords& now = words(state());
  // A function that is called once, before all others, has no way out in any later state.
  const char* const way_out =
      now.way_out == nullptr || rule.states == during::created ? way_out_at_rest(rule.states) : now.way_out;
  return {ErrorKind::usage, std::string(name) + " was called " + now.described + "; " + way_out};
}

void CallOrder::made(CallEffect effect) {
  switch (effect) {
    case CallEffect::none: break;
    case CallEffect::attaches: base_ = rest_; break;
    case CallEffect::enters_forward: in_forward_ = true; break;
    case CallEffect::leaves_forward: in_forward_ = false; break;
    case CallEffect::begins_backward: base_ = CallState::backward, in_forward_ = false; break;
    case CallEffect::ends_backward:
      base_ = announced_ ? CallState::complete : CallState::gathered, in_forward_ = false;
      break;
    case CallEffect::announces: base_ = CallState::announced, announced_ = true; break;
    case CallEffect::steps: base_ = rest_ = CallState::between, announced_ = false; break;
    case CallEffect::drops: base_ = rest_, in_forward_ = announced_ = false; break;
    case CallEffect::lends: ++n_lent_; break;
    case CallEffect::takes_back: --n_lent_; break;
  }
}

const char* described(CallState state) { return words(state).described; }

std::string spelled(CallStates states) {
  const CallStates others = during::any & ~states;
  if (others == 0) return "any";
  return std::popcount(others) < std::popcount(states) ? "any but " + list_of(others) : list_of(states);
}

}  // namespace castor::sdk
