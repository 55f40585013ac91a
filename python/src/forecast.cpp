// SPDX-License-Identifier: Apache-2.0
#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include "forecast.h"

#include <castor/engine/team_size.h>
#include <castor/memory/bytes.h>
#include <castor/memory/device.h>
#include <castor/memory/link_rates.h>
#include <castor/memory/tier.h>
#include <castor/plugins/torch/estimate_recorded.h>
#include <castor/plugins/torch/record_step.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "tensor_optimizer.h"
#include "unit_pass.h"

namespace castor::python {
namespace {

namespace py = pybind11;

double value_or(const Values& values, const char* name, double usual) {
  const auto found = values.find(name);
  return found == values.end() ? usual : found->second;
}

ForecastMachine machine_of(const std::string& device, const Values& values) {
  ForecastMachine machine;
  if (device == "cpu") machine.kind = DeviceKind::cpu;
  const auto bytes = [&](const char* name, std::uint64_t usual) {
    return static_cast<std::uint64_t>(value_or(values, name, static_cast<double>(usual)));
  };
  machine.device_bytes = bytes("device_bytes", machine.device_bytes);
  machine.host_bytes = bytes("host_bytes", machine.host_bytes);
  machine.flops_per_s = value_or(values, "flops_per_s", machine.flops_per_s);
  machine.compute_slowdown = value_or(values, "compute_slowdown", machine.compute_slowdown);
  machine.host_update_bytes_per_s = value_or(values, "host_update_bytes_per_s", machine.host_update_bytes_per_s);
  machine.device_update_bytes_per_s = value_or(values, "device_update_bytes_per_s", machine.device_update_bytes_per_s);
  const auto cost = [&](const char* name, double usual) { return 1 / value_or(values, name, 1 / usual); };
  machine.links = {.h2d = cost("h2d_bytes_per_s", machine.links.h2d),
                   .d2h = cost("d2h_bytes_per_s", machine.links.d2h),
                   .nvme_read = cost("nvme_read_bytes_per_s", machine.links.nvme_read),
                   .nvme_write = cost("nvme_write_bytes_per_s", machine.links.nvme_write)};
  return machine;
}

py::dict dict_of(const Forecast& found) {
  py::dict peaks, links;
  for (const Tier tier : kTiers) peaks[name(tier)] = found.peak_bytes[index(tier)];
  return py::dict(py::arg("n_params") = found.n_params, py::arg("peak_bytes") = peaks,
                  py::arg("non_model_bytes") = found.non_model_bytes, py::arg("step_s") = found.step.step_s,
                  py::arg("compute_s") = found.step.compute_s, py::arg("wait_s") = found.step.wait_s,
                  py::arg("update_s") = found.update_s, py::arg("bound_by") = found.step.bound_by,
                  py::arg("bound_s") = found.step.bound_s);
}

class Recording {
 public:
  Recording(NamedTensors params, Units units, const std::string& plugin, std::map<std::string, std::string> options)
      : plugin_{plugin, std::move(options)} {
    recording_ =
        value_of(StepRecording::begin(parts_of(std::move(params), std::move(units)), value_of(keeps_inputs(plugin_))));
  }

  std::unique_ptr<UnitPass> enter(std::size_t unit, const py::tuple& args, const py::dict& kwargs) const {
    return entered(recording_->unit(unit), args, kwargs);
  }

  void begin_operator() { recording_->begin_operator(); }
  void end_operator() { recording_->end_operator(); }

  /// The backward pass from the loss; returns the operations of the step.
  double end(const at::Tensor& loss) {
    const py::gil_scoped_release others_run;
    step_ = value_of(recording_->end(loss));
    return step_->flops();
  }
  std::vector<double> flops_of_units() const { return step().flops_of_units(); }

  /// The meta device is as before. No pass of a unit may be open.
  void close() { recording_.reset(); }

  /// budgets: in place of the plugin's, in bytes.
  py::dict forecast(const std::string& rule, const Values& values, double max_norm, std::int64_t micro_batches,
                    const std::string& device, const Values& machine,
                    const std::map<std::string, std::string>& budgets) const {
    PluginByName plugin = plugin_;
    for (const auto& [name, bytes] : budgets) plugin.options[name] = bytes;
    SessionOptions options;
    options.max_norm = max_norm, options.micro_batches = micro_batches, options.autograd_begins = true;
    Forecast found;
    {
      const py::gil_scoped_release others_run;
      found = value_of(estimate(step(), plugin, optimizer_of(rule, values), machine_of(device, machine), options));
    }
    return dict_of(found);
  }

 private:
  const RecordedStep& step() const {
    if (!step_) throw ErrorException({ErrorKind::usage, "the step has not ended"});
    return *step_;
  }

  PluginByName plugin_;
  std::unique_ptr<StepRecording> recording_;
  std::optional<RecordedStep> step_;
};

/// Of the links to the GPU of that number, or to a device that is the host; measured in under 0.3 s.
py::dict link_rates(std::optional<int> gpu) {
  LinkRates rates;
  {
    const py::gil_scoped_release others_run;
    const std::unique_ptr<Device> device = gpu ? value_of(make_cuda_device(*gpu)) : make_cpu_device();
    rates = value_of(calibrate_links(*device));
  }
  return py::dict(py::arg("h2d_bytes_per_s") = rates.h2d, py::arg("d2h_bytes_per_s") = rates.d2h);
}

}  // namespace

void bind_forecast(py::module_& module) {
  module.def("team_size", [](unsigned update_threads, bool on_gpu) {
    const TeamSize size = team_size_of(update_threads, on_gpu);
    return std::make_pair(size.n_threads, size.n_spared_cpus);
  });
  module.def("link_rates", &link_rates);
  module.def("format_bytes", &format_bytes);
  py::class_<Recording>(module, "Recording")
      .def(py::init<NamedTensors, Units, const std::string&, std::map<std::string, std::string>>())
      .def("enter", &Recording::enter)
      .def("begin_operator", &Recording::begin_operator)
      .def("end_operator", &Recording::end_operator)
      .def("end", &Recording::end)
      .def("flops_of_units", &Recording::flops_of_units)
      .def("close", &Recording::close)
      .def("forecast", &Recording::forecast);
}

}  // namespace castor::python
