// SPDX-License-Identifier: Apache-2.0
#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include "tensor_optimizer.h"

#include <castor/plugins/step_args.h>
#include <castor/standalone/tensor_optimizer.h>

#include <ATen/ops/empty.h>

#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.h"

namespace castor::python {
namespace {

namespace py = pybind11;

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DType::f32;
    case at::kBFloat16: return DType::bf16;
    case at::kHalf: return DType::f16;
    default: throw ErrorException({ErrorKind::usage, std::string("there is no rule for ") + c10::toString(type)});
  }
}

/// The options of a rule for the kernels. Throws: usage, where a value is out of its range.
UpdateOptions rule_of(const std::string& rule, const Values& values) {
  const auto args = step_args(optimizer_of(rule, values));
  value_of(check_step_args(args, 1));
  return step_options(args, 1).update;
}

using Tensors = std::vector<std::pair<at::ScalarType, std::uint64_t>>;
/// Its number, weight, gradient, rule, the rule's values, and whether bias is corrected.
using Update = std::tuple<std::uint32_t, at::Tensor, at::Tensor, std::string, Values, bool>;
using OptionalTensor = std::optional<at::Tensor>;

/// A TensorOptimizer of tensors of torch on the host.
class OnHost {
 public:
  OnHost(const Tensors& tensors, bool keeps_exp_avg_sq, std::vector<std::string> folders, double nvme_fraction,
         unsigned n_threads, unsigned n_spared_cpus)
      : keeps_exp_avg_sq_(keeps_exp_avg_sq) {
    std::vector<TrainedTensor> trained;
    for (const auto& [type, n] : tensors) trained.push_back({dtype_of(type), n});
    const py::gil_scoped_release others_run;
    states_ = value_of(TensorOptimizer::make(
        trained, {keeps_exp_avg_sq, std::move(folders), nvme_fraction, n_threads, n_spared_cpus}));
  }

  void step(const std::vector<Update>& updates, double grad_scale) {
    std::vector<TensorUpdate> made;
    for (const auto& [number, weight, grad, rule, values, corrects_bias] : updates)
      made.push_back({number, weight.mutable_data_ptr(), grad.const_data_ptr(), dtype_of(grad.scalar_type()),
                      rule_of(rule, values), corrects_bias});
    const py::gil_scoped_release others_run;
    value_of(states_->step(made, grad_scale));
  }

  std::tuple<at::Tensor, at::Tensor, OptionalTensor, std::uint64_t> read(std::uint32_t number,
                                                                         const at::Tensor& weight) {
    const auto empty = [&] { return at::empty({weight.numel()}, at::kFloat); };
    const at::Tensor exp_avg = empty();
    const OptionalTensor exp_avg_sq = keeps_exp_avg_sq_ ? OptionalTensor(empty()) : std::nullopt;
    at::Tensor master = weight.scalar_type() == at::kFloat ? weight : empty();
    TensorStates states{weight.scalar_type() == at::kFloat ? nullptr : master.mutable_data_ptr<float>(),
                        exp_avg.mutable_data_ptr<float>(), data_of(exp_avg_sq), 0};
    value_of(states_->read(number, weight.const_data_ptr(), states));
    return {master, exp_avg, exp_avg_sq, states.n_updates};
  }

  void write(std::uint32_t number, const at::Tensor& weight, const OptionalTensor& master,
             const OptionalTensor& exp_avg, const OptionalTensor& exp_avg_sq, std::uint64_t n_updates) {
    value_of(states_->write(number, weight.mutable_data_ptr(),
                            {data_of(master), data_of(exp_avg), data_of(exp_avg_sq), n_updates}));
  }

  std::vector<std::string> warnings() const { return states_->warnings(); }
  std::pair<std::uint64_t, std::uint64_t> moved_bytes() const {
    return {states_->bytes_read(), states_->bytes_written()};
  }

 private:
  static float* data_of(const OptionalTensor& tensor) { return tensor ? tensor->mutable_data_ptr<float>() : nullptr; }

  const bool keeps_exp_avg_sq_;
  std::unique_ptr<TensorOptimizer> states_;
};

}  // namespace

Optimizer optimizer_of(const std::string& rule, const Values& v) {
  if (rule == "adamw") return AdamW{v.at("lr"), {v.at("beta1"), v.at("beta2")}, v.at("eps"), v.at("weight_decay")};
  if (rule == "adam") return Adam{v.at("lr"), {v.at("beta1"), v.at("beta2")}, v.at("eps"), v.at("weight_decay")};
  if (rule == "lamb") return Lamb{v.at("lr"), {v.at("beta1"), v.at("beta2")}, v.at("eps"), v.at("weight_decay")};
  if (rule == "sgd") return Sgd{v.at("lr"), v.at("momentum"), v.at("weight_decay"), v.at("nesterov") != 0};
  if (rule == "lars")
    return Lars{v.at("lr"), v.at("momentum"), v.at("weight_decay"), v.at("nesterov") != 0, v.at("trust_coefficient"),
                v.at("eps")};
  throw ErrorException({ErrorKind::usage, "there is no rule '" + rule + "'"});
}

void bind_tensor_optimizer(py::module_& module) {
  module.def("check_rule", [](const std::string& rule, const Values& values) { (void)rule_of(rule, values); });
  py::class_<OnHost>(module, "TensorOptimizer")
      .def(py::init<const Tensors&, bool, std::vector<std::string>, double, unsigned, unsigned>())
      .def("step", &OnHost::step)
      .def("read", &OnHost::read)
      .def("write", &OnHost::write)
      .def("warnings", &OnHost::warnings)
      .def("moved_bytes", &OnHost::moved_bytes);
}

}  // namespace castor::python
