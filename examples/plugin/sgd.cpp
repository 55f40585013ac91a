// SPDX-License-Identifier: Apache-2.0
// A plugin built outside of Castor's tree: gradient descent on fp32 parameters in host memory (../README.md).
#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>
#include <castor/plugins/export_strategy.h>
#include <castor/plugins/strategy_parts.h>
using namespace castor;
namespace {

class Sgd final : public Strategy, private ValueCalls {
 public:
  explicit Sgd(ModelHost& host) : host_(host) {}
  ~Sgd() override {
    for (std::uint32_t i = 0; i < weights_.size(); ++i) static_cast<void>(host_.unbind(i, "the plugin sgd has ended"));
  }
  ValueCalls& values() override { return *this; }
  Result<void> attach() override {
    for (std::uint32_t i = 0; i < host_.n_params(); ++i) {
      CASTOR_ASSIGN(const castor_param_info info, host_.param_info(i));
      if (info.dtype.bits != 32) return Error{ErrorKind::usage, std::string(info.name) + " is not fp32"};
      CASTOR_ASSIGN(weights_.emplace_back(), Buffer::allocate(memory_, info.numel * sizeof(float) + 1));
      grads_.emplace_back(info.numel);
      CASTOR_TRY(host_.first_values({sizeof(castor_values), i, 0, CASTOR_ALL, CASTOR_FP32, weight(i)}));
      CASTOR_TRY(host_.bind(i, weight(i)));
    }
    return {};
  }
  Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) override {
    const auto* value = static_cast<const float*>(grad->dl_tensor.data) + grad->dl_tensor.byte_offset / sizeof(float);
    for (float& sum : grads_[param]) sum += *value++;
    grad->deleter(grad);
    return {};
  }
  Result<std::uint64_t> begin_step(const castor_step_args& args) override {
    for (std::uint32_t i = 0; i < grads_.size(); ++i)
      for (float* w = weight(i); float& g : grads_[i]) *w++ -= static_cast<float>(args.lr) * std::exchange(g, 0.f);
    return tickets_.add(/*skipped=*/false, /*grad_norm=*/-1);
  }
  Result<castor_step_result> step_result(std::uint64_t ticket) override { return tickets_.result_of(ticket); }
  Result<castor_stats> stats() override { return blank<castor_stats>(); }
  Result<void> read_masters(const castor_values& wanted) override {
    CASTOR_ASSIGN(const castor_param_state state, masters_of(wanted, grads_[wanted.param].size()));
    return std::copy_n(weight(state.param) + state.first, state.n, state.master), Result<void>();
  }

 private:
  float* weight(std::uint32_t param) { return reinterpret_cast<float*>(weights_[param].data()); }
  ModelHost& host_;
  HostResource memory_;
  std::vector<Buffer> weights_;
  std::vector<std::vector<float>> grads_;
  StepTickets tickets_;
};
Result<std::unique_ptr<Strategy>> make(ModelHost& host, std::span<const castor_option_value* const>) {
  return std::unique_ptr<Strategy>(std::make_unique<Sgd>(host));
}
const CppPlugin kSgd = {"sgd", "1.0", "gradient descent in host memory", CASTOR_CAP_CPU, {}, make};
}  // namespace
extern "C" const castor_plugin_info* castor_plugin_query_v2(void) { return plugin_info<kSgd>(); }
