// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <castor/chunk/chunk.h>
#include <castor/optimizer/step_options.h>
#include <castor/optimizer/step_script.h>

namespace castor {

/// Writes down the calls of each step, so that a step under another placement can be rehearsed. Off until start().
///
/// Threads: one at a time.
class StepRecorder {
 public:
  /// A step that has ended.
  struct Step {
    StepScript script;
    StepOptions options;
    std::vector<ChunkId> activations;  ///< by number in the script
  };

  void start() { on_ = true; }
  void stop() { *this = {}; }

  /// A unit begins a pass. A forward pass of the step's first unit, after forward passes alone, begins the step anew:
  /// those before it were an evaluation.
  void enter(StepCall::Kind pass, std::uint32_t unit) {
    if (begins_anew(pass, unit)) forget();
    went_back_ = went_back_ || pass == StepCall::Kind::backward;
    add(pass, unit);
  }
  void add(StepCall::Kind kind, std::uint32_t id = 0) {
    if (on_) now_.script.push_back({kind, id, 0});
  }
  void keep(ChunkId chunk, std::uint64_t n_bytes) {
    if (!on_) return;
    const auto number = static_cast<std::uint32_t>(now_.activations.size());
    now_.activations.push_back(chunk);
    numbers_[chunk] = number;
    now_.script.push_back({StepCall::Kind::keep, number, n_bytes});
  }
  /// A call about a kept activation. One that was kept before the step is left out.
  void about(StepCall::Kind kind, ChunkId chunk) {
    if (const auto found = numbers_.find(chunk); found != numbers_.end()) add(kind, found->second);
  }
  void end_step(const StepOptions& options) {
    if (!on_) return;
    now_.options = options;
    last_ = std::exchange(now_, {});
    forget();
  }

  /// Ends a step whose calls are of no use: it was dropped, or updated nothing.
  void break_off() { forget(); }

  const Step& last() const { return last_; }

 private:
  bool begins_anew(StepCall::Kind pass, std::uint32_t unit) const {
    if (pass != StepCall::Kind::forward || went_back_ || now_.script.empty()) return false;
    const StepCall& first = now_.script.front();
    return first.kind == pass && first.id == unit;
  }
  void forget() {
    now_ = {};
    numbers_.clear();
    went_back_ = false;
  }

  bool on_ = false;
  Step now_, last_;
  std::map<ChunkId, std::uint32_t> numbers_;  ///< of activations that were kept in this step
  bool went_back_ = false;                    ///< the step has had a backward pass
};

}  // namespace castor
