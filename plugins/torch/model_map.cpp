// SPDX-License-Identifier: Apache-2.0
#include "model_map.h"

#include <castor/plugins/torch/any_unit.h>
#include "parameter_checks.h"
#include "parameter_storage.h"

#include <ATen/DLConvertor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace castor {
namespace {

using IdsByTensor = std::unordered_map<const c10::TensorImpl*, std::uint32_t>;
using InitsByTensor = std::unordered_map<const c10::TensorImpl*, Init>;

const c10::TensorImpl* key(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

InitsByTensor declared_inits(const torch::nn::Module& model) {
  InitsByTensor inits;
  for (const auto& module : model.modules())
    if (const auto* unit = dynamic_cast<const AnyUnit*>(module.get()))
      for (const AnyUnit::Declared& own : unit->declared()) inits.emplace(key(own.parameter), own.init);
  return inits;
}

std::optional<Init> find(const InitsByTensor& inits, const at::Tensor& tensor) {
  const auto found = inits.find(key(tensor));
  return found == inits.end() ? std::nullopt : std::optional(found->second);
}

ParamEntry entry_of(const std::string& name, const at::Tensor& tensor, std::optional<Init> init) {
  return {name, tensor, init, at::getDLDataType(tensor), tensor.sizes().vec(), tensor.strides().vec()};
}

Result<IdsByTensor> map_params(const torch::nn::Module& model, c10::Device device, std::vector<ParamEntry>& params) {
  const InitsByTensor inits = declared_inits(model);
  ParameterChecks checks(device);
  IdsByTensor ids;
  for (const auto& entry : model.named_parameters()) {
    const at::Tensor& tensor = entry.value();
    if (!ids.emplace(key(tensor), params.size()).second) continue;
    const bool own_memory = tensor.has_storage() &&
                            storage_of(tensor).allocator() != nullptr;  // given since it was declared, with its values
    const std::optional<Init> init = own_memory ? std::nullopt : find(inits, tensor);
    CASTOR_TRY(checks.check(entry.key(), tensor, init.has_value()));
    params.push_back(entry_of(entry.key(), tensor, init));
  }
  return ids;
}

void add_once(std::uint32_t id, std::vector<std::uint32_t>& params) {
  if (std::find(params.begin(), params.end(), id) == params.end()) params.push_back(id);
}

/// Goes through the modules of a model, and gives the parameters of each to the unit that it is in.
class UnitWalk {
 public:
  UnitWalk(const IdsByTensor& ids, const ModuleFilter& is_unit, ModelMap& map)
      : ids_(ids), is_unit_(is_unit), map_(map) {}

  /// Errors: usage.
  Result<void> visit(const std::string& name, torch::nn::Module& module, std::optional<std::size_t> within) {
    if (!seen_.insert(&module).second) return {};
    if (chosen(name, module)) {
      within = map_.units.size();
      auto* const own = dynamic_cast<AnyUnit*>(&module);
      UnitBorder* const border = own ? own : map_.give_border();
      map_.border_of[&module] = border;
      map_.units.push_back({name, border, {}});
    }
    if (within) CASTOR_TRY(add_params(name, module, map_.units[*within].params));
    for (const auto& child : module.named_children())
      CASTOR_TRY(visit(name.empty() ? child.key() : name + '.' + child.key(), *child.value(), within));
    return {};
  }

 private:
  bool chosen(const std::string& name, const torch::nn::Module& module) const {
    return is_unit_ ? is_unit_(name, module) : dynamic_cast<const AnyUnit*>(&module) != nullptr;
  }

  Result<void> add_params(const std::string& name, const torch::nn::Module& module,
                          std::vector<std::uint32_t>& params) const {
    for (const auto& own : module.named_parameters(/*recurse=*/false)) add_once(ids_.at(key(own.value())), params);
    const auto* unit = dynamic_cast<const AnyUnit*>(&module);
    if (unit == nullptr) return {};
    for (const at::Tensor& shared : unit->shared()) {
      const auto id = ids_.find(key(shared));
      if (id == ids_.end())
        return Error{ErrorKind::usage,
                     "unit " + name + " shares a parameter that no module of the model registers; register it in one"};
      add_once(id->second, params);
    }
    return {};
  }

  const IdsByTensor& ids_;
  const ModuleFilter& is_unit_;
  ModelMap& map_;
  std::unordered_set<const torch::nn::Module*> seen_;
};

Error no_parameters() { return {ErrorKind::usage, "the model has no parameters to train"}; }

Result<void> check_units(const ModelMap& map, const std::string& remedy) {
  std::vector<bool> in_unit(map.params.size());
  for (const UnitEntry& unit : map.units)
    for (const std::uint32_t id : unit.params) in_unit[id] = true;
  for (std::size_t id = 0; id < in_unit.size(); ++id)
    if (!in_unit[id]) return Error{ErrorKind::usage, "parameter " + map.params[id].name + " is in no unit; " + remedy};
  return {};
}

Result<void> give_first_values(const std::vector<at::Tensor>& all, std::vector<ParamEntry>& params) {
  for (std::size_t id = 0; id < all.size(); ++id) {
    if (id >= params.size())
      return Error{ErrorKind::usage, "there are first values of " + std::to_string(all.size()) +
                                         " parameters, and the model has " + std::to_string(params.size())};
    const at::Tensor &values = all[id], &param = params[id].tensor;
    if (!values.defined()) continue;
    if (values.sizes() != param.sizes() || values.strides() != param.strides())
      return Error{ErrorKind::usage,
                   "the first values of parameter " + params[id].name + " have other sizes or strides than it has"};
    if (!computes(param) && values.scalar_type() != param.scalar_type())
      return Error{ErrorKind::usage,
                   "the first values of parameter " + params[id].name + ", which is opaque, have another dtype"};
    if (values.is_meta())
      params[id].init = Init::zeros();
    else
      params[id].first_values = values;
  }
  return {};
}

}  // namespace

ModuleFilter exactly(std::vector<std::shared_ptr<torch::nn::Module>> modules) {
  return [modules = std::move(modules)](const std::string&, const torch::nn::Module& module) {
    return std::any_of(modules.begin(), modules.end(), [&](const auto& one) { return one.get() == &module; });
  };
}

Result<ModelMap> map_model(torch::nn::Module& model, c10::Device device, const ModuleFilter& is_unit) {
  ModelMap map;
  CASTOR_ASSIGN(const IdsByTensor ids, map_params(model, device, map.params));
  if (map.params.empty()) return no_parameters();
  CASTOR_TRY(UnitWalk(ids, is_unit, map).visit("", model, std::nullopt));
  CASTOR_TRY(check_units(map,
                         "make a module that holds it a castor::Unit, or choose one as a unit "
                         "(AdapterOptions::is_unit)"));
  return map;
}

Result<ModelMap> map_parts(const ModelParts& model, c10::Device device) {
  ModelMap map;
  ParameterChecks checks(device);
  IdsByTensor ids;
  for (const auto& [name, tensor] : model.params) {
    if (const auto [first, is_new] = ids.emplace(key(tensor), map.params.size()); !is_new)
      return Error{ErrorKind::usage,
                   "parameter " + name + " is the tensor of " + map.params[first->second].name + "; give it once"};
    map.params.push_back(entry_of(name, tensor, std::nullopt));
  }
  if (map.params.empty()) return no_parameters();
  CASTOR_TRY(give_first_values(model.first_values, map.params));
  for (const ParamEntry& param : map.params)
    CASTOR_TRY(checks.check(param.name, param.tensor, param.init || param.first_values.defined()));
  for (const UnitParts& unit : model.units) {
    UnitEntry& entry = map.units.emplace_back(UnitEntry{unit.name, map.give_border(), {}});
    for (const std::size_t id : unit.params) {
      if (id >= map.params.size())
        return Error{ErrorKind::usage, "unit " + unit.name + " reads parameter " + std::to_string(id) +
                                           " of a model of " + std::to_string(map.params.size())};
      add_once(static_cast<std::uint32_t>(id), entry.params);
    }
  }
  CASTOR_TRY(check_units(map, "name it in the unit that reads it"));
  return map;
}

}  // namespace castor
