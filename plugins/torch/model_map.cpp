// SPDX-License-Identifier: Apache-2.0
#include "model_map.h"

#include <castor/plugins/torch/unit.h>

#include <ATen/DLConvertor.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace castor {
namespace {

using IdsByTensor = std::unordered_map<const c10::TensorImpl*, std::uint32_t>;
using InitsByTensor = std::unordered_map<const c10::TensorImpl*, Init>;

const c10::TensorImpl* key(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

Unit* as_unit(const std::shared_ptr<torch::nn::Module>& module) { return dynamic_cast<Unit*>(module.get()); }

std::optional<Error> refuse(const std::string& name, const at::Tensor& tensor, c10::Device device,
                            const InitsByTensor& declared) {
  if (!declared.contains(key(tensor)))
    return Error{
        ErrorKind::usage,
        "parameter " + name + " was registered outside a castor::Unit; declare it in one, so that it can be placed"};
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16)
    return Error{ErrorKind::usage,
                 "parameter " + name + " is " + c10::toString(dtype) + "; parameters are fp32, fp16 or bf16"};
  if (tensor.device().type() != device.type())
    return Error{ErrorKind::usage,
                 "parameter " + name + " is on " + tensor.device().str() + ", the model trains on " + device.str()};
  return std::nullopt;
}

std::vector<std::uint32_t> ids_of(const Unit& unit, const IdsByTensor& ids) {
  std::vector<std::uint32_t> params;
  for (const Unit::Declared& own : unit.declared()) params.push_back(ids.at(key(own.parameter)));
  for (const at::Tensor& other : unit.shared()) params.push_back(ids.at(key(other)));
  return params;
}

InitsByTensor declared_by_units(const torch::nn::Module& model) {
  InitsByTensor declared;
  for (const auto& module : model.named_modules())
    if (const Unit* unit = as_unit(module.value()))
      for (const Unit::Declared& own : unit->declared()) declared.emplace(key(own.parameter), own.init);
  return declared;
}

Result<IdsByTensor> map_params(const torch::nn::Module& model, c10::Device device, std::vector<ParamEntry>& params) {
  const InitsByTensor declared = declared_by_units(model);
  IdsByTensor ids;
  for (const auto& entry : model.named_parameters()) {
    const at::Tensor& tensor = entry.value();
    if (auto error = refuse(entry.key(), tensor, device, declared)) return *error;
    if (!ids.emplace(key(tensor), params.size()).second) continue;
    params.push_back({entry.key(), tensor, declared.at(key(tensor)), at::getDLDataType(tensor)});
  }
  return ids;
}

}  // namespace

Result<ModelMap> map_model(const torch::nn::Module& model, c10::Device device) {
  ModelMap map;
  CASTOR_ASSIGN(const IdsByTensor ids, map_params(model, device, map.params));
  if (map.params.empty()) return Error{ErrorKind::usage, "the model has no parameters to train"};
  for (const auto& module : model.named_modules())
    if (Unit* unit = as_unit(module.value())) map.units.push_back({module.key(), unit, ids_of(*unit, ids)});
  return map;
}

}  // namespace castor
