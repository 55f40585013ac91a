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

  const castor_host_v1& table() const override { return table_; }
  std::string take_error() override { return std::exchange(error_, {}); }

  /// In order: `init w`, `bind w`, `unbind w: why`, and the plugin's log messages, unchanged.
  const std::vector<std::string>& calls() const { return calls_; }
  /// Makes the call `call` (as it would be recorded) fail from now on, with `status` and the sentence `<call> was told
  /// to fail`.
  void fail_on(std::string call, castor_status status) { failing_call_ = std::move(call), failing_status_ = status; }

  /// Hands out device memory of `allocator`, which is borrowed. Requires: before the plugin gets the table.
  void allocate_from(FakeAllocator& allocator);
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
  static FakeModelHost& of(void* self) { return *static_cast<FakeModelHost*>(self); }
  static castor_host_v1 make_table(FakeModelHost* self);
  castor_status record(const std::string& call);
  castor_status init(std::uint32_t param, std::uint64_t first, std::uint64_t n, float* out);
  castor_status bind(std::uint32_t param, void* data);
  castor_status unbind(std::uint32_t param, const char* why);
  castor_status describe(std::uint32_t param, castor_param_info* out) const;
  castor_status describe_unit(std::uint32_t unit, castor_unit_info* out) const;

  const std::vector<FakeParam> params_;
  const std::vector<FakeUnit> units_;
  const DLDevice device_;
  castor_host_v1 table_;
  FakeAllocator* allocator_ = nullptr;
  std::function<bool()> interrupted_;
  NthCall* failing_bind_ = nullptr;
  std::vector<void*> bound_;
  std::mutex mutex_;  // of calls_ and error_: several threads call init_param_range
  std::vector<std::string> calls_;
  std::string error_;
  std::string failing_call_;
  castor_status failing_status_ = CASTOR_FAILED;
  std::shared_ptr<int> n_live_gradients_ =
      std::make_shared<int>(0);  // shared with the gradients, which may outlive the host
};

/// The product of `shape`.
std::uint64_t numel(const std::vector<std::int64_t>& shape);

}  // namespace castor::test
