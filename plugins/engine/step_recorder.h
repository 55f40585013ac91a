// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

  /// A unit begins a pass. Where the step `starts` with it (Scheduler::at_start), passes before it were an evaluation,
  /// or broke off, and are forgotten.
  void enter(StepCall::Kind pass, std::uint32_t unit, bool starts) {
    if (starts) forget_passes();
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
  /// An announcement before the first pass stays.
  void forget_passes() {
    const auto is_pass = [](const StepCall& call) { return call.kind != StepCall::Kind::announce; };
    now_.script.erase(std::find_if(now_.script.begin(), now_.script.end(), is_pass), now_.script.end());
    now_.activations.clear();
    numbers_.clear();
  }
  void forget() {
    now_ = {};
    numbers_.clear();
  }

  bool on_ = false;
  Step now_, last_;
  std::map<ChunkId, std::uint32_t> numbers_;  ///< of activations that were kept in this step
};

}  // namespace castor
