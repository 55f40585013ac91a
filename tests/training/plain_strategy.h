// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <castor/plugins/strategy.h>

#include "../support/fake_model_host.h"

namespace castor::test {

/// Values of the tested parameters: one of two pieces, one of a few values, one that is frozen.
inline const std::vector<std::uint64_t> kValues = {(std::uint64_t{1} << 20) + 7, 3, 1000};
inline constexpr std::uint32_t kFrozen = 2;

/// Parameters with as many values each; number kFrozen is frozen.
inline std::vector<FakeParam> params(const std::vector<std::uint64_t>& n_values = kValues) {
  std::vector<FakeParam> all;
  for (std::uint32_t id = 0; id < n_values.size(); ++id) {
    FakeParam param{.name = "p" + std::to_string(id), .shape = {static_cast<std::int64_t>(n_values[id])}};
    param.init.resize(n_values[id]);
    param.trainable = id != kFrozen;
    all.push_back(std::move(param));
  }
  return all;
}

/// A strategy with states in plain memory, computed from parameter, array, index and a salt.
class PlainStrategy : public Strategy, private ValueCalls {
 public:
  ValueCalls& values() override { return *this; }

  explicit PlainStrategy(std::uint32_t salt, const std::vector<std::uint64_t>& n_values = kValues)
      : arrays_(n_values.size()) {
    for (std::uint32_t id = 0; id < n_values.size(); ++id) {
      n_updates_.push_back(salt + id);
      for (std::uint32_t array = 0; array < 3; ++array) {
        std::vector<float>& values = arrays_[id][array];
        values.resize(id == kFrozen && array > 0 ? 0 : n_values[id]);
        for (std::uint64_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<float>((i * 7 + array * 3 + id + salt) % 65537);
      }
    }
  }
  bool operator==(const PlainStrategy& other) const {
    return arrays_ == other.arrays_ && n_updates_ == other.n_updates_;
  }

  /// The given arrays of the trained parameters equal those of `other`.
  bool has_of(const PlainStrategy& other, const std::vector<std::uint32_t>& arrays) const {
    for (std::uint32_t id = 0; id < kFrozen; ++id)
      for (const std::uint32_t array : arrays)
        if (arrays_[id][array] != other.arrays_[id][array]) return false;
    return true;
  }

  const std::vector<float>& array(std::uint32_t param, std::uint32_t array) const { return arrays_[param][array]; }
  std::uint64_t n_updates(std::uint32_t param) const { return n_updates_[param]; }

  /// Makes the nth read and all later ones fail, counted from 1.
  void fail_reads_from(int nth) { n_reads_left_ = nth - 1; }

  Result<void> read_state(castor_param_state& state) override {
    if (n_reads_left_-- == 0) return Error{ErrorKind::failed, "the states are gone"};
    state.n_updates = n_updates_[state.param];
    return move(state, [](float* ours, float* theirs, std::uint64_t n) { std::copy_n(ours, n, theirs); });
  }
  Result<void> write_state(const castor_param_state& state) override {
    n_updates_[state.param] = state.n_updates;
    return move(state, [](float* ours, float* theirs, std::uint64_t n) { std::copy_n(theirs, n, ours); });
  }

 private:
  template <typename Copy>
  Result<void> move(const castor_param_state& state, Copy copy) {
    if (state.first + state.n > arrays_[state.param][0].size())
      return Error{ErrorKind::failed, "parameter " + std::to_string(state.param) + " has fewer values"};
    float* const theirs[] = {state.master, state.exp_avg, state.exp_avg_sq};
    for (std::uint32_t array = 0; array < 3; ++array)
      if (!arrays_[state.param][array].empty() && theirs[array] != nullptr)
        copy(arrays_[state.param][array].data() + state.first, theirs[array], state.n);
    return {};
  }

  std::vector<std::array<std::vector<float>, 3>> arrays_;  ///< by parameter
  std::vector<std::uint64_t> n_updates_;
  int n_reads_left_ = -1;
};

}  // namespace castor::test
