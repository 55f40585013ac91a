// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/engine/recorded_step.h>
#include <castor/plugins/strategy.h>

#include "flop_counter.h"
#include "meta_memory.h"

#include <cstdint>

namespace castor {

/// Writes down the calls of a model on the meta device, and its work and its memory between them. It places nothing.
class RecordingStrategy final : public Strategy {
 public:
  /// `keeps_inputs`: it takes the inputs of recomputed parts, as the option offload_activations does.
  explicit RecordingStrategy(bool keeps_inputs) : inputs_(*this, keeps_inputs) {}

  ValueCalls& values() override { return values_; }
  ActivationCalls& activations() override { return inputs_; }
  Result<void> attach() override { return {}; }
  Result<void> before_forward(std::uint32_t unit) override { return add(StepCall::Kind::forward, unit); }
  Result<void> after_forward(std::uint32_t unit) override { return add(StepCall::Kind::end_forward, unit); }
  Result<void> before_backward(std::uint32_t unit) override { return add(StepCall::Kind::backward, unit); }
  Result<void> after_backward(std::uint32_t unit) override { return add(StepCall::Kind::end_backward, unit); }
  Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) override {
    grad->deleter(grad);
    return add(StepCall::Kind::gradient, param);
  }
  Result<void> announce_step(const castor_step_args&) override { return add(StepCall::Kind::announce); }
  Result<void> end_of_backward() override { return add(StepCall::Kind::end_of_backward); }

  /// An operator that has been counted runs again, by a kernel that may be a program of others.
  void begin_operator() { memory_.begin_operator(), flops_.pause(true); }
  void end_operator() { memory_.end_operator(), flops_.pause(false); }

  /// Ends the recording.
  std::vector<RecordedCall> take() {
    measure();
    return std::move(calls_);
  }

 private:
  /// The inputs of recomputed parts, numbered from 1 on.
  class Inputs final : public ActivationCalls {
   public:
    Inputs(RecordingStrategy& recording, bool on) : recording_(recording), on_(on) {}
    Result<std::uint32_t> keep(const void*, std::uint64_t n_bytes) override {
      if (!on_) return std::uint32_t{0};
      CASTOR_TRY(recording_.add(StepCall::Kind::keep, n_kept_, n_bytes));
      return ++n_kept_;
    }
    Result<void*> recall(std::uint32_t kept) override {
      CASTOR_TRY(recording_.add(StepCall::Kind::recall, kept - 1));
      return static_cast<void*>(nullptr);
    }
    Result<void> forget(std::uint32_t kept) override { return recording_.add(StepCall::Kind::forget, kept - 1); }

   private:
    RecordingStrategy& recording_;
    const bool on_;
    std::uint32_t n_kept_ = 0;
  };

  Result<void> add(StepCall::Kind kind, std::uint32_t id = 0, std::uint64_t n_bytes = 0) {
    measure();
    calls_.push_back({{kind, id, n_bytes}});
    return {};
  }

  /// The work and the memory since the last call belong to it.
  void measure() {
    const double flops = flops_.take();
    const std::uint64_t peak_bytes = memory_.take_peak();
    if (!calls_.empty()) calls_.back().flops = flops, calls_.back().peak_bytes = peak_bytes;
  }

  MetaMemory memory_;
  FlopCounter flops_;
  ValueCalls values_;
  Inputs inputs_;
  std::vector<RecordedCall> calls_;
};

}  // namespace castor
