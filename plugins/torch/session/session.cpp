// SPDX-License-Identifier: Apache-2.0
#include "session_parts.h"

#include <castor/plugins/strategy_parts.h>
#include <castor/plugins/torch/errors.h>
#include <castor/rules/grad_norm.h>
#include <castor/training/finite_states.h>
#include <castor/training/optimizer_families.h>
#include <castor/training/weights_digest.h>

#include <ATen/DLConvertor.h>

#include <algorithm>

namespace castor {
namespace {

using Call = StepOrder::Call;

castor_access access_to(const std::vector<std::uint32_t>& ids, std::uint32_t mode = CASTOR_READ) {
  return {sizeof(castor_access), mode, static_cast<std::uint32_t>(ids.size()), ids.data()};
}

}  // namespace

Session::NoSync::~NoSync() {
  if (n_held_ != nullptr) --*n_held_;
}

Session::Session(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<void> Session::backward(const at::Tensor& loss) {
  Parts& p = *parts_;
  CASTOR_TRY(p.adapter->end_broken_pass());
  CASTOR_TRY(p.may_run_backward());
  bool begun = false;
  const auto announce = [&] {
    begun = true;
    return p.announce();
  };
  const double scale =
      p.next_args().loss_scale / static_cast<double>(std::max<std::int64_t>(1, p.options.micro_batches));
  const auto done = p.adapter->backward(loss, scale, announce);
  if (done.ok() || begun) p.end_backward(done.ok());
  return done;
}

Result<StepOutcome> Session::step() {
  Parts& p = *parts_;
  CASTOR_TRY(p.in_order(Call::step));
  CASTOR_TRY(p.none_lent("step()"));
  CASTOR_TRY(p.adapter->check_gradients());
  castor_step_args args = p.was_announced() ? p.announced : p.next_args();
  if (const auto clipping = std::exchange(p.clipping, std::nullopt)) args.max_norm = clipping->max_norm;
  const auto result = p.strategy->step(args);
  if (!result.ok()) return p.order.failed(), result.error();
  p.order.done(Call::step);
  const std::vector<std::uint32_t> stepped = p.adapter->forget_gradients();
  if (result->skipped == 0) p.versions.count_up(stepped);
  p.end_micro_batch(0);
  ++p.n_steps;
  if (p.scaler) p.scaler->update(result->skipped != 0);
  StepOutcome outcome{result->skipped != 0, {}, args.lr};
  if (!(result->grad_norm < 0)) outcome.grad_norm = result->grad_norm;  // a nan counts as a norm
  return outcome;
}

Result<bool> Session::step_under_way() {
  CASTOR_TRY(parts_->adapter->end_broken_pass());
  return parts_->order.is_under_way();
}

Result<void> Session::zero_grad() {
  CASTOR_TRY(parts_->adapter->end_broken_pass());
  CASTOR_TRY(parts_->may_drop_step());
  parts_->clipping.reset();
  CASTOR_TRY(parts_->strategy->discard_gradients());
  parts_->adapter->forget_gradients();
  parts_->end_micro_batch(0);
  parts_->order.abandoned();
  return {};
}

Session::NoSync Session::no_sync() { return NoSync(parts_->n_held); }

UnitBorder& Session::border_of(const torch::nn::Module& module) const { return parts_->adapter->border_of(module); }

UnitBorder& Session::unit(std::size_t number) const { return parts_->adapter->unit(number); }

Result<SavedBytes> Session::save() { return parts_->save(); }

Result<SavedBytes> Session::save(const std::filesystem::path& folder) {
  CASTOR_TRY(parts_->in_order(Call::save));
  CASTOR_TRY(parts_->folders.save_in({folder}));
  const auto saved = parts_->save();
  parts_->folders.close();
  return saved;
}

bool Session::commits_in(const std::filesystem::path& folder) const { return parts_->folders.commits_in(folder); }

Result<void> Session::resume(const std::vector<std::filesystem::path>& folders) {
  CASTOR_TRY(parts_->order.check(Call::resume));
  CASTOR_TRY(parts_->folders.resume_from(folders));
  auto loaded = parts_->load();
  if (!loaded.ok() && parts_->order.state() != StepOrder::State::torn) return loaded;
  std::vector<std::uint32_t> all;
  for (const ParamId id : parts_->params.ids()) all.push_back(number(id));
  parts_->versions.renew(all);
  return loaded;
}

Result<double> Session::grad_norm() {
  Parts& p = *parts_;
  CASTOR_TRY(p.in_order(Call::clip));
  if (p.was_announced())
    return Error{ErrorKind::usage, "the step was announced without this clipping; give the session max_norm",
                 "max_norm"};
  CASTOR_ASSIGN(const double sum_norm, p.strategy->measure_norm());
  return sum_norm / p.next_args().loss_scale;
}

Result<double> Session::clip_grad_norm(double max_norm) {
  CASTOR_ASSIGN(const double norm, grad_norm());
  parts_->clipping = Clipping{max_norm, clip_factor(norm, max_norm)};
  parts_->order.done(Call::clip);
  return norm;
}

Result<void> Session::set_optimizer(const Optimizer& optimizer, std::vector<ParamGroup> groups) {
  std::swap(parts_->options.groups, groups);
  const auto done = set_optimizer(optimizer);
  if (!done.ok()) std::swap(parts_->options.groups, groups);
  return done;
}

Result<void> Session::set_optimizer(const Optimizer& optimizer) {
  Parts& p = *parts_;
  const castor_step_args values = step_args(optimizer);
  if (values.optimizer != p.values.optimizer)
    return Error{ErrorKind::usage, "the session trains by another rule than " + name(values.optimizer) +
                                       "; save the run and resume it in a session of that rule"};
  if (p.was_announced())
    return Error{
        ErrorKind::usage,
        "the step was announced with other values; change them before its last backward pass, or boost without "
        "micro_batches"};
  return p.set_values(values);
}

void Session::set_data_position(std::string position) { parts_->data_position = std::move(position); }
const std::string& Session::data_position() const { return parts_->data_position; }

std::int64_t Session::n_steps() const { return parts_->n_steps; }
double Session::loss_scale() const { return parts_->scaler ? parts_->scaler->scale() : 1; }
double Session::scale_next_loss() {
  parts_->loss_is_scaled = true;
  return loss_scale();
}
const std::vector<GroupSummary>& Session::groups() const { return parts_->groups->summaries(); }
bool Session::saves() const { return parts_->folders.saves(); }

std::uint64_t Session::n_params() const {
  std::uint64_t numel = 0;
  for (const castor_param_info& param : parts_->params) numel += param.numel;
  return numel;
}

Result<RunStats> Session::stats() {
  CASTOR_ASSIGN(const castor_stats stats, parts_->strategy->stats());
  return run_stats(stats);
}

Result<void> Session::trace(const std::filesystem::path& file) { return parts_->strategy->write_trace(file.c_str()); }

Result<std::string> Session::digest() {
  CASTOR_TRY(parts_->in_order(Call::read));
  return weights_digest(parts_->adapter->host(), *parts_->strategy);
}

Result<std::optional<std::string>> Session::not_finite() {
  CASTOR_TRY(parts_->in_order(Call::read));
  return first_not_finite(parts_->params, *parts_->strategy);
}

Result<at::Tensor> Session::read_master(std::string_view wanted) {
  CASTOR_TRY(parts_->in_order(Call::read));
  CASTOR_ASSIGN(const ParamId id, parts_->named(wanted));
  return parts_->read_master(id);
}

Result<Moments> Session::read_moments(std::string_view wanted) {
  CASTOR_TRY(parts_->in_order(Call::read));
  CASTOR_ASSIGN(const ParamId id, parts_->named(wanted));
  return parts_->read_moments(id);
}

Result<void> Session::write_moments(std::string_view wanted, const Moments& moments) {
  CASTOR_TRY(parts_->order.check(Call::write));
  CASTOR_ASSIGN(const ParamId id, parts_->named(wanted));
  return parts_->write_moments(id, moments);
}

Result<at::Tensor> Session::read_gradient(std::string_view wanted) {
  CASTOR_ASSIGN(const ParamId id, parts_->named(wanted));
  return parts_->read_gradient(id);
}

Result<void> Session::write_gradient(std::string_view wanted, const at::Tensor& values) {
  CASTOR_ASSIGN(const ParamId id, parts_->named(wanted));
  return parts_->write_gradient(id, values);
}

Result<void> Session::acquire(const std::vector<std::string>& names, bool write) {
  CASTOR_TRY(parts_->in_order(write ? Call::write : Call::read));
  CASTOR_ASSIGN(const auto ids, parts_->known_as(names));
  for (const std::uint32_t id : ids) {
    CASTOR_TRY(parts_->adapter->check_memory(id));
    if (write && is_opaque(parts_->params[ParamId{id}])) return opaque_is_read_only(parts_->params[ParamId{id}].name);
  }
  CASTOR_TRY(parts_->strategy->values().acquire(access_to(ids)));
  ++parts_->n_lent;
  if (!write) return {};
  const auto lent = guard([&] { parts_->lent_for_writing.lend(ids); });
  if (!lent.ok() && parts_->strategy->values().release(access_to(ids)).ok()) --parts_->n_lent;
  return lent;
}

Result<void> Session::release(const std::vector<std::string>& names, bool write) {
  CASTOR_ASSIGN(const auto ids, parts_->known_as(names));
  Result<void> own_memory;
  for (const std::uint32_t id : ids)
    if (auto own = parts_->adapter->check_memory(id); !own.ok() && own_memory.ok()) own_memory = std::move(own);
  std::vector<std::uint32_t> written;
  if (write) CASTOR_TRY(guard([&] { written = parts_->lent_for_writing.written(ids); }));
  ValueCalls& values = parts_->strategy->values();
  if (!written.empty()) {
    CASTOR_TRY(values.acquire(access_to(written, CASTOR_WRITE)));
    CASTOR_TRY(values.release(access_to(written, CASTOR_WRITE)));
  }
  CASTOR_TRY(values.release(access_to(ids)));
  --parts_->n_lent;
  if (write) parts_->lent_for_writing.take_back(ids), parts_->versions.take(ids);
  return own_memory;
}

Result<at::Tensor> Session::read_weight(std::string_view wanted) {
  CASTOR_TRY(parts_->in_order(Call::read));
  CASTOR_ASSIGN(const ParamId id, parts_->named(wanted));
  return parts_->read_weight(id);
}

Result<NamedTensors> Session::state_dict() {
  CASTOR_TRY(parts_->in_order(Call::read));
  NamedTensors weights;
  for (const ParamId id : parts_->params.ids()) {
    CASTOR_TRY(parts_->adapter->check_memory(number(id)));
    CASTOR_ASSIGN(at::Tensor weight, parts_->read_weight(id));
    weights.emplace_back(parts_->params[id].name, std::move(weight));
  }
  return weights;
}

Result<void> Session::load(const NamedTensors& weights) {
  CASTOR_TRY(parts_->order.check(Call::write));
  std::vector<ParamId> ids;
  for (const auto& [name, values] : weights) {
    CASTOR_ASSIGN(const ParamId id, parts_->named(name));
    if (!values.defined() || values.sizes() != sizes_of(parts_->params[id]))
      return Error{ErrorKind::usage, "the values for parameter " + name + " have other sizes than it has"};
    if (std::find(ids.begin(), ids.end(), id) != ids.end())
      return Error{ErrorKind::usage, "parameter " + name + " is given values twice"};
    ids.push_back(id);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) CASTOR_TRY(parts_->write_master(ids[i], weights[i].second));
  std::vector<std::uint32_t> changed;
  for (const ParamId id : ids) changed.push_back(number(id));
  parts_->versions.renew(changed);
  return {};
}

}  // namespace castor
