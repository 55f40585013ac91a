// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/torch/adapter_options.h>
#include <castor/plugins/torch/model_parts.h>
#include <castor/plugins/torch/random.h>
#include <castor/plugins/torch/unit_border.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace castor {

struct ParamEntry {
  std::string name;
  at::Tensor tensor;
  std::optional<Init> init;  ///< of a declared one; another's initial values are those it has
  DLDataType dtype;
  /// As they were when the model was mapped: a program can give the tensor others.
  std::vector<std::int64_t> sizes, strides;
  at::Tensor own = {};           ///< its memory when a strategy was connected: a program can give the tensor other
  at::Tensor first_values = {};  ///< ModelParts::first_values, until it is bound
  bool was_bound = false;        ///< the memory that it came with, if any, is gone

  const at::Tensor& memory() const { return own.defined() ? own : tensor; }
};

struct UnitEntry {
  std::string name;
  UnitBorder* border;
  std::vector<std::uint32_t> params;  ///< of its modules, in the order in which modules() lists them; each once
};

/// The border of a unit that has none by its type.
class GivenBorder final : public UnitBorder {};

/// A model by numbers: units in the order in which modules() lists them, parameters in the order of named_parameters(),
/// a tied one once. Of a model that was given as parts, both in the order of these.
struct ModelMap {
  std::vector<ParamEntry> params;
  std::vector<UnitEntry> units;
  std::unordered_map<const torch::nn::Module*, UnitBorder*> border_of;
  std::vector<std::unique_ptr<GivenBorder>> given_borders;

  UnitBorder* give_border() { return given_borders.emplace_back(std::make_unique<GivenBorder>()).get(); }
};

/// Errors: usage, for a parameter in no unit, one that cannot be bound (parameter_checks.h), and a model without
/// parameters.
Result<ModelMap> map_model(torch::nn::Module& model, c10::Device device, const ModuleFilter& is_unit);
/// Errors: as map_model; usage, for a tensor that is given twice, and for a position beyond the parameters.
Result<ModelMap> map_parts(const ModelParts& model, c10::Device device);

}  // namespace castor
