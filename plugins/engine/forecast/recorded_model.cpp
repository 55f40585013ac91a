// SPDX-License-Identifier: Apache-2.0
#include <castor/engine/recorded_model.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include <castor/plugins/dl_dtype.h>

namespace castor {
namespace {

constexpr float kFirstValue = 0.02f;

}  // namespace

Result<castor_unit_info> RecordedModel::unit_info(std::uint32_t unit) {
  const RecordedStep::Unit& found = step_.units.at(unit);
  return castor_unit_info{sizeof(castor_unit_info), static_cast<std::uint32_t>(found.params.size()), found.name.c_str(),
                          found.params.data()};
}

Result<castor_param_info> RecordedModel::param_info(std::uint32_t param) {
  const RecordedStep::Param& found = step_.params.at(param);
  auto info = blank<castor_param_info>();
  info.flags = found.flags;
  info.name = found.name.c_str();
  info.shape = found.shape.data(), info.ndim = static_cast<std::int32_t>(found.shape.size());
  info.dtype = found.dtype, info.numel = found.numel(), info.storage = param;
  return info;
}

Result<void> RecordedModel::first_values(const castor_values& values) {
  if (values.form == CASTOR_OWN)
    std::memset(values.data, 0, values.n * value_bytes(step_.params.at(values.param).dtype));
  else
    std::fill_n(static_cast<float*>(values.data), values.n, kFirstValue);
  return {};
}

Result<void> RecordedModel::run(Strategy& strategy, const castor_step_args& args) {
  kept_.clear();
  for (const RecordedCall& call : step_.calls) {
    CASTOR_TRY(play(call.call, strategy, args));
    work(call);
  }
  const auto done = strategy.step(args);
  return done.ok() ? Result<void>() : done.error();
}

Result<void> RecordedModel::play(const StepCall& call, Strategy& strategy, const castor_step_args& args) {
  using Kind = StepCall::Kind;
  switch (call.kind) {
    case Kind::forward: return strategy.before_forward(call.id);
    case Kind::end_forward: return strategy.after_forward(call.id);
    case Kind::backward: return strategy.before_backward(call.id);
    case Kind::end_backward: return strategy.after_backward(call.id);
    case Kind::gradient: return strategy.gradient(call.id, gradient(call.id));
    case Kind::announce: return strategy.announce_step(args);
    case Kind::end_of_backward: return strategy.end_of_backward();
    case Kind::keep: return keep(call, strategy);
    case Kind::forget: return forget(call, strategy);
    case Kind::recall: break;
  }
  if (kept_.at(call.id).by_strategy == 0) return {};
  const auto bytes = strategy.activations().recall(kept_[call.id].by_strategy);
  return bytes.ok() ? Result<void>() : bytes.error();
}

Result<void> RecordedModel::keep(const StepCall& call, Strategy& strategy) {
  CASTOR_ASSIGN(const std::uint32_t number, strategy.activations().keep(nullptr, call.n_bytes));
  kept_.push_back({number, call.n_bytes});
  if (number == 0) keep_own(call.n_bytes);
  return {};
}

Result<void> RecordedModel::forget(const StepCall& call, Strategy& strategy) {
  const Kept& kept = kept_.at(call.id);
  if (kept.by_strategy != 0) return strategy.activations().forget(kept.by_strategy);
  forget_own(kept.n_bytes);
  return {};
}

DLManagedTensor* RecordedModel::gradient(std::uint32_t param) {
  return gradient_at(param, nullptr, nullptr, [](DLManagedTensor* self) { delete self; });
}

DLManagedTensor* RecordedModel::gradient_at(std::uint32_t param, void* data, void* owner,
                                            void (*deleter)(DLManagedTensor*)) const {
  const RecordedStep::Param& of = step_.params.at(param);
  auto made = std::make_unique<DLManagedTensor>();
  auto* const shape = const_cast<std::int64_t*>(of.shape.data());  // DLPack knows no const
  const auto n_dims = static_cast<std::int32_t>(of.shape.size());
  made->dl_tensor = {data, {kDLCPU, 0}, n_dims, of.dtype, shape, nullptr, 0};
  made->manager_ctx = owner;
  made->deleter = deleter;
  return made.release();
}

}  // namespace castor
