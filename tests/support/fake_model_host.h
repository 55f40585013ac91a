// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/booster.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_allocator.h"
#include "nth_call.h"

namespace castor::test {

inline constexpr DLDataType kFp32 = {kDLFloat, 32, 1};
inline constexpr DLDataType kBf16 = {kDLBfloat, 16, 1};
inline constexpr DLDataType kFp16 = {kDLFloat, 16, 1};

struct FakeParam {
  std::string name;
  std::vector<std::int64_t> shape;
  DLDataType dtype = kFp32;
  std::vector<float> init;  ///< one for each element of the shape
  bool trainable = true;
};

struct FakeUnit {
  std::string name;
  std::vector<std::uint32_t> params;
};

/// A model without torch: parameters in plain memory, gradients made by the test, every call of the plugin recorded.
///
/// Threads: one at a time.
class FakeModelHost final : public ModelHost {
 public:
  FakeModelHost(std::vector<FakeParam> params, std::vector<FakeUnit> units, DLDevice device = {kDLCPU, 0});
  FakeModelHost(const FakeModelHost&) = delete;

  void log(std::uint32_t level, const char* message) override;
  std::uint32_t n_units() override { return static_cast<std::uint32_t>(units_.size()); }
  std::uint32_t n_params() override { return static_cast<std::uint32_t>(params_.size()); }
  Result<castor_unit_info> unit_info(std::uint32_t unit) override;
  Result<castor_param_info> param_info(std::uint32_t param) override;
  Result<void> first_values(const castor_values& values) override;
  Result<void> bind(std::uint32_t param, void* data) override;
  Result<void> unbind(std::uint32_t param, const char* why) override;
  DLDevice device() override { return device_; }
  std::int32_t interrupted() override { return interrupted_ && interrupted_() ? 1 : 0; }
  DeviceCalls* device_memory() override { return allocator_; }
  GroupCalls* groups() override { return groups_; }
  StageCalls* stages() override { return stages_; }

  /// In order: `init w`, `bind w`, `unbind w: why`, and the plugin's log messages, unchanged.
  const std::vector<std::string>& calls() const { return calls_; }
  /// Makes the call `call` (as it would be recorded) fail from now on, with an error of `kind` and the sentence `<call>
  /// was told to fail`.
  void fail_on(std::string call, ErrorKind kind) { failing_call_ = std::move(call), failing_kind_ = kind; }

  /// Hands out device memory of `allocator`, which is borrowed. Requires: before the plugin gets the host.
  void allocate_from(FakeAllocator& allocator) { allocator_ = &allocator; }
  /// Makes this host a rank of a world, and of a pipeline. Borrowed. Requires: as allocate_from.
  void join(GroupCalls& groups, StageCalls* stages = nullptr) { groups_ = &groups, stages_ = stages; }
  /// Asked by the plugin whether the user wants to stop; nothing set: never.
  void set_interrupted(std::function<bool()> interrupted) { interrupted_ = std::move(interrupted); }
  /// Fails the binding that `nth` names, which is borrowed.
  void fail_bind(NthCall& nth) { failing_bind_ = &nth; }

  /// The memory that the parameter is bound to; null where it is unbound.
  const void* bound(std::uint32_t param) const { return bound_.at(param); }
  /// The bound weights, bf16 widened to fp32. Requires: bound.
  std::vector<float> weights(std::uint32_t param) const;

  /// A gradient of the parameter's shape and dtype that the plugin must delete. Requires: `values` are as many as the
  /// parameter's and exact in its dtype.
  DLManagedTensor* make_gradient(std::uint32_t param, const std::vector<float>& values);
  /// Gradients made and not yet deleted.
  int n_live_gradients() const { return *n_live_gradients_; }

 private:
  Result<void> record(const std::string& call);

  const std::vector<FakeParam> params_;
  const std::vector<FakeUnit> units_;
  const DLDevice device_;
  FakeAllocator* allocator_ = nullptr;
  GroupCalls* groups_ = nullptr;
  StageCalls* stages_ = nullptr;
  std::function<bool()> interrupted_;
  NthCall* failing_bind_ = nullptr;
  std::vector<void*> bound_;
  std::mutex mutex_;  // of calls_: several threads ask for first values
  std::vector<std::string> calls_;
  std::string failing_call_;
  ErrorKind failing_kind_ = ErrorKind::failed;
  std::shared_ptr<int> n_live_gradients_ =
      std::make_shared<int>(0);  // shared with the gradients, which may outlive the host
};

/// The product of `shape`.
std::uint64_t numel(const std::vector<std::int64_t>& shape);

}  // namespace castor::test
