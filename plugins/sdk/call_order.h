// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include <castor/memory/result.h>
#include <castor/plugins/call_need.h>

namespace castor::sdk {

/// The order of the calls into a strategy: its state, and whether a call is in order.
///
/// Passes of units are not counted: a unit's forward pass ends with the next after_forward, whichever unit's it is, and
/// with the next backward pass.
/// Threads: one at a time, from begin_turn to the end of its turn.
class CallOrder {
 public:
  /// The time in which one thread makes a call.
  class Turn {
   public:
    /// Borrowed; null: the thread has its turn already.
    explicit Turn(std::atomic<std::thread::id>* taken) : taken_(taken) {}
    ~Turn() {
      if (taken_ != nullptr) taken_->store({});
    }
    Turn(Turn&& other) noexcept : taken_(std::exchange(other.taken_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;

   private:
    std::atomic<std::thread::id>* taken_;
  };

  /// Any thread may call it. Errors: usage, while another thread makes a call.
  Result<Turn> begin_turn(const char* name);
  CallState state() const;
  /// Errors: usage, where the function `name` may not be called now; the sentence names the state, and the call that
  /// must come first.
  Result<void> admit(const CallNeed& rule, const char* name) const {
    return (rule.states & during::only(state())) != 0 ? Result<void>() : refusal(rule, name);
  }
  /// A call has succeeded.
  void made(CallEffect effect);

 private:
  Error refusal(const CallNeed& rule, const char* name) const;

  std::atomic<std::thread::id> turn_ = {};  ///< of this thread; none: of no one
  CallState base_ = CallState::created;     ///< never forward or lent
  CallState rest_ = CallState::attached;
  bool in_forward_ = false;
  bool announced_ = false;  ///< the step under way was
  std::uint32_t n_lent_ = 0;
};

/// The state as sentences name it: "in a backward pass".
const char* described(CallState state);
/// The states as docs/plugin_abi.md spells them: "attached, between"; "any"; "any but created".
std::string spelled(CallStates states);

}  // namespace castor::sdk
