// SPDX-License-Identifier: Apache-2.0
#include "flop_counter.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

namespace castor {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

double number(std::int64_t n) { return static_cast<double>(n); }
at::Tensor tensor(const Inputs& inputs, std::size_t i) { return inputs[i].toTensor(); }

/// [.., m, k] times [.., k, n].
double of_product(const at::Tensor& a, const at::Tensor& b) { return 2 * number(a.numel()) * number(b.size(-1)); }

double of_vector(const at::Tensor& matrix) { return 2 * number(matrix.numel()); }

/// Two products over the pairs of positions that see each other; query and key are [batch, heads, seq, size].
double of_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) {
  const double pairs = number(query.numel() / query.size(-1)) * number(key.size(-2));
  return 2 * pairs * number(query.size(-1) + value.size(-1)) * (causal ? 0.5 : 1);
}

/// The kernel computes the scores once more, and has two products for each of the forward pass.
constexpr double kAttentionBackward = 2.5;

/// Each element of the result takes the weights of one output channel; transposed, each element of the input those of
/// one input channel.
double of_convolution(const at::Tensor& of_channels, const at::Tensor& weight) {
  return 2 * number(of_channels.numel()) * number(weight.numel() / weight.size(0));
}

double of_convolution_backward(const Inputs& inputs) {
  const auto wanted = inputs.back().toBoolList();
  const bool transposed = inputs[7].toBool();
  return of_convolution(tensor(inputs, transposed ? 1 : 0), tensor(inputs, 2)) * (int{wanted[0]} + int{wanted[1]});
}

struct Rule {
  std::string_view name;
  double (*flops)(const Inputs&);
};

constexpr Rule kRules[] = {
    {"aten::mm", [](const Inputs& in) { return of_product(tensor(in, 0), tensor(in, 1)); }},
    {"aten::addmm", [](const Inputs& in) { return of_product(tensor(in, 1), tensor(in, 2)); }},
    {"aten::bmm", [](const Inputs& in) { return of_product(tensor(in, 0), tensor(in, 1)); }},
    {"aten::baddbmm", [](const Inputs& in) { return of_product(tensor(in, 1), tensor(in, 2)); }},
    {"aten::mv", [](const Inputs& in) { return of_vector(tensor(in, 0)); }},
    {"aten::addmv", [](const Inputs& in) { return of_vector(tensor(in, 1)); }},
    {"aten::_scaled_dot_product_flash_attention",
     [](const Inputs& in) { return of_attention(tensor(in, 0), tensor(in, 1), tensor(in, 2), in[4].toBool()); }},
    {"aten::_scaled_dot_product_flash_attention_backward",
     [](const Inputs& in) {
       return kAttentionBackward * of_attention(tensor(in, 1), tensor(in, 2), tensor(in, 3), in[11].toBool());
     }},
    {"aten::convolution_backward", of_convolution_backward},
};

/// Its result is known only at its end, and its inputs only at its beginning.
constexpr std::string_view kConvolution = "aten::convolution";

struct Convolution final : at::ObserverContext {
  explicit Convolution(const Inputs& inputs)
      : input(tensor(inputs, 0)), weight(tensor(inputs, 1)), transposed(inputs[6].toBool()) {}
  const at::Tensor input, weight;
  const bool transposed;
};

}  // namespace

struct FlopCounter::State {
  double flops = 0;
  at::CallbackHandle handle = 0;
};

namespace {

/// Where the callbacks, which are plain functions, find the counter of their thread.
thread_local double* counted = nullptr;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& op) {
  const std::string_view name = op.name();
  if (counted != nullptr && name == kConvolution) return std::make_unique<Convolution>(op.inputs());
  const auto is_named = [&](const Rule& rule) { return rule.name == name; };
  const auto rule = std::find_if(std::begin(kRules), std::end(kRules), is_named);
  if (counted != nullptr && rule != std::end(kRules)) *counted += rule->flops(op.inputs());
  return nullptr;
}

void end(const at::RecordFunction& op, at::ObserverContext* context) {
  if (counted == nullptr || context == nullptr || op.outputs().empty()) return;  // without outputs it has failed
  const auto& begun = *static_cast<Convolution*>(context);
  *counted += of_convolution(begun.transposed ? begun.input : op.outputs()[0].toTensor(), begun.weight);
}

}  // namespace

FlopCounter::FlopCounter() : state_(std::make_unique<State>()) {
  counted = &state_->flops;
  state_->handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() {
  at::removeCallback(state_->handle);
  counted = nullptr;
}

void FlopCounter::pause(bool paused) { counted = paused ? nullptr : &state_->flops; }

double FlopCounter::take() { return std::exchange(state_->flops, 0); }

}  // namespace castor
