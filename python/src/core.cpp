// SPDX-License-Identifier: Apache-2.0
// castor._core: a session around a model that is given as lists (ModelParts). castor/ makes it a Booster.
#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/io/whole_file.h>
#include <castor/memory/budget.h>
#include <castor/memory/bytes.h>
#include <castor/plugins/torch/runtime.h>
#include <castor/plugins/torch/session.h>
#include <castor/training/optimizer.h>

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "drive_store.h"
#include "errors.h"
#include "file_writer.h"
#include "forecast.h"
#include "tensor_optimizer.h"
#include "unit_pass.h"

namespace castor::python {
namespace {

namespace py = pybind11;

using Names = std::vector<std::string>;

/// The groups of an optimizer: the values of each, and the names of its parameters.
using Groups = std::vector<std::pair<Values, std::vector<std::string>>>;

std::optional<double> entry(const Values& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

constexpr const char* kGradientIsHere =
    "is with Castor: optimizer.clip_grad_norm_(max_norm) clips it, castor.grad(parameter) reads it, and "
    "castor.set_grad(parameter, values) replaces it";

ParamGroup group_of(std::size_t number, const Values& v, const std::vector<std::string>& names) {
  ParamGroup group{.selector = "param_groups[" + std::to_string(number) + "]"};
  group.lr = entry(v, "lr"), group.eps = entry(v, "eps");
  group.weight_decay = entry(v, "weight_decay"), group.momentum = entry(v, "momentum");
  group.trust_coefficient = entry(v, "trust_coefficient");
  if (v.contains("beta1")) group.betas.emplace(v.at("beta1"), v.at("beta2"));
  group.names.insert(names.begin(), names.end());
  return group;
}

/// None where one group has every parameter.
std::vector<ParamGroup> groups_of(const Groups& groups) {
  std::vector<ParamGroup> made;
  for (std::size_t i = 0; groups.size() > 1 && i < groups.size(); ++i)
    if (!groups[i].second.empty()) made.push_back(group_of(i, groups[i].first, groups[i].second));
  return made;
}

GradScalerOptions scaler_of(const Values& v) {
  GradScalerOptions scaler;
  scaler.initial_scale = entry(v, "initial_scale").value_or(scaler.initial_scale);
  scaler.min_scale = entry(v, "min_scale").value_or(scaler.min_scale);
  scaler.max_scale = entry(v, "max_scale").value_or(scaler.max_scale);
  scaler.growth_factor = entry(v, "growth_factor").value_or(scaler.growth_factor);
  scaler.backoff_factor = entry(v, "backoff_factor").value_or(scaler.backoff_factor);
  scaler.growth_interval = static_cast<std::int64_t>(entry(v, "growth_interval").value_or(scaler.growth_interval));
  scaler.hysteresis = static_cast<std::int64_t>(entry(v, "hysteresis").value_or(scaler.hysteresis));
  return scaler;
}

/// What the library says, from any of its threads, until the training thread takes it.
class Messages {
 public:
  using Taken = std::vector<std::pair<int, std::string>>;
  void add(int level, std::string_view text) {
    const std::scoped_lock lock(mutex_);
    said_.emplace_back(level, text);
  }
  Taken take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(said_, {});
  }

 private:
  std::mutex mutex_;
  Taken said_;
};

/// `function` as a session calls it, from any thread.
std::function<Result<void>()> called(py::function function) {
  const auto release = [](py::function* held) {
    const py::gil_scoped_acquire own;
    delete held;
  };
  return [held = std::shared_ptr<py::function>(new py::function(std::move(function)), release)]() -> Result<void> {
    const py::gil_scoped_acquire own;
    try {
      (*held)();
    } catch (const py::error_already_set& error) {
      return Error{ErrorKind::usage, py::str(error.value()).cast<std::string>()};
    }
    return {};
  };
}

std::unique_ptr<Session> boosted(NamedTensors params, std::vector<std::optional<at::Tensor>> first_values, Units units,
                                 const std::string& plugin, const PluginOptions& plugin_options,
                                 const std::string& rule, const Groups& groups, double max_norm,
                                 std::int64_t micro_batches, const Values& scaler,
                                 const std::shared_ptr<Messages>& messages, py::function before_announcing) {
  ModelParts parts = parts_of(std::move(params), std::move(units));
  for (auto& values : first_values) parts.first_values.push_back(values.value_or(at::Tensor()));
  const Optimizer optimizer = optimizer_of(rule, groups.at(0).first);
  SessionOptions options{
      .micro_batches = micro_batches, .autograd_begins = true, .values_may_change = micro_batches == 0};
  options.groups = groups_of(groups), options.max_norm = max_norm, options.rethrow = raise;
  options.grad_message = kGradientIsHere;
  options.before_announcing = called(std::move(before_announcing));
  options.log = [messages](castor_log_level level, std::string_view text) { messages->add(level, text); };
  if (!scaler.empty()) options.scaler = scaler_of(scaler);
  const py::gil_scoped_release others_run;
  return std::make_unique<Session>(
      value_of(boost(parts, PluginByName{plugin, plugin_options}, optimizer, std::move(options))));
}

/// Has torch's allocator map pages, which leaves fewer holes. A session limits it.
void configure_allocator() { value_of(configure_device_allocator(Budget::kUnlimited, Budget::kUnlimited)); }

py::dict stats(Session& session) {
  const RunStats found = value_of(session.stats());
  py::dict used, peak, budget, moved;
  for (const Tier tier : kTiers) {
    used[name(tier)] = found.used_bytes[index(tier)], peak[name(tier)] = found.peak_bytes[index(tier)];
    budget[name(tier)] = found.budget_bytes[index(tier)];
  }
  for (const Link link : kLinks) moved[name(link)] = found.moved_bytes[index(link)];
  return py::dict(py::arg("used_bytes") = used, py::arg("peak_bytes") = peak, py::arg("budget_bytes") = budget,
                  py::arg("moved_bytes") = moved, py::arg("wait_seconds") = found.wait_seconds,
                  py::arg("update_seconds") = found.update_seconds, py::arg("bound_seconds") = found.bound.seconds,
                  py::arg("bound_by") = found.bound.by);
}

std::unique_ptr<UnitPass> enter(const Session& session, std::size_t unit, const py::tuple& args,
                                const py::dict& kwargs) {
  return entered(session.unit(unit), args, kwargs);
}

void set_optimizer(Session& session, const std::string& rule, const Groups& groups) {
  value_of(session.set_optimizer(optimizer_of(rule, groups.at(0).first), groups_of(groups)));
}

std::pair<bool, std::optional<double>> step(Session& session) {
  const py::gil_scoped_release others_run;
  const StepOutcome outcome = value_of(session.step());
  return {outcome.skipped, outcome.grad_norm};
}

/// exp_avg, exp_avg_sq or none, and the number of updates
using MomentsTuple = std::tuple<at::Tensor, std::optional<at::Tensor>, std::uint64_t>;

MomentsTuple read_moments(Session& session, const std::string& name) {
  const Moments moments = value_of(session.read_moments(name));
  std::optional<at::Tensor> exp_avg_sq;
  if (moments.exp_avg_sq.defined()) exp_avg_sq = moments.exp_avg_sq;
  return {moments.exp_avg, exp_avg_sq, moments.n_updates};
}

void write_moments(Session& session, const std::string& name, const MomentsTuple& moments) {
  const auto& [exp_avg, exp_avg_sq, n_updates] = moments;
  value_of(session.write_moments(name, {exp_avg, exp_avg_sq.value_or(at::Tensor()), n_updates}));
}

void save(Session& session, const std::string& folder) {
  const py::gil_scoped_release others_run;
  value_of(session.save(folder));
}

void resume(Session& session, const Names& folders) {
  const py::gil_scoped_release others_run;
  value_of(session.resume({folders.begin(), folders.end()}));
}

double grad_norm(Session& session) {
  const py::gil_scoped_release others_run;
  return value_of(session.grad_norm());
}

double clip_grad_norm(Session& session, double max_norm) {
  const py::gil_scoped_release others_run;
  return value_of(session.clip_grad_norm(max_norm));
}

void bind_training(py::class_<Session>& session) {
  session.def("enter", &enter)
      .def("set_optimizer", &set_optimizer)
      .def("grad_norm", &grad_norm)
      .def("clip_grad_norm", &clip_grad_norm)
      .def("step", &step)
      .def(
          "no_sync", [](Session& s) { return std::make_unique<Session::NoSync>(s.no_sync()); }, py::keep_alive<0, 1>())
      .def("scale_next_loss", &Session::scale_next_loss)
      .def("loss_scale", &Session::loss_scale)
      .def("step_under_way", [](Session& s) { return value_of(s.step_under_way()); })
      .def("zero_grad", [](Session& s) { value_of(s.zero_grad()); });
}

void bind_values(py::class_<Session>& session) {
  session.def("acquire", [](Session& s, const Names& names, bool write) { value_of(s.acquire(names, write)); })
      .def("release", [](Session& s, const Names& names, bool write) { value_of(s.release(names, write)); })
      .def("read_gradient", [](Session& s, const std::string& name) { return value_of(s.read_gradient(name)); })
      .def("write_gradient", [](Session& s, const std::string& name,
                                const at::Tensor& values) { value_of(s.write_gradient(name, values)); })
      .def("read_master", [](Session& s, const std::string& name) { return value_of(s.read_master(name)); })
      .def("read_weight", [](Session& s, const std::string& name) { return value_of(s.read_weight(name)); })
      .def("read_moments", &read_moments)
      .def("write_moments", &write_moments)
      .def("load", [](Session& s, const NamedTensors& weights) { value_of(s.load(weights)); })
      .def("state_dict", [](Session& s) { return value_of(s.state_dict()); })
      .def("save", &save)
      .def("commits_in", [](Session& s, const std::string& folder) { return s.commits_in(folder); })
      .def("resume", &resume)
      .def("stats", &stats)
      .def("trace", [](Session& s, const std::string& file) { value_of(s.trace(file)); });
}

}  // namespace
}  // namespace castor::python

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  using namespace castor::python;
  using castor::Session;
  translate_errors();
  py::class_<Session::NoSync>(module, "NoSync");
  py::class_<Messages, std::shared_ptr<Messages>>(module, "Messages").def(py::init<>()).def("take", &Messages::take);
  py::class_<UnitPass>(module, "UnitPass").def("end", &UnitPass::end).def("begin_backward", &UnitPass::begin_backward);
  py::class_<Session> session(module, "Session");
  bind_training(session);
  bind_values(session);
  bind_tensor_optimizer(module);
  bind_drive_store(module);
  bind_file_writer(module);
  bind_forecast(module);
  module.def("boost", &boosted);
  module.def("check_file", [](const std::string& path) { value_of(castor::check_whole_file(path)); });
  module.def("configure_allocator", &configure_allocator);
  module.def("allocates_chunk", &castor::allocates_chunk);
  module.def("unplaced_like", [](const at::Tensor& tensor, c10::ScalarType dtype, c10::Device device) {
    return castor::unplaced_like(tensor, at::TensorOptions(dtype).device(device));
  });
}
