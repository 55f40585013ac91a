// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/torch/adapter_options.h>
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
  bool was_bound = false;  ///< the memory that it came with, if any, is gone
};

struct UnitEntry {
  std::string name;
  UnitBorder* border;
  std::vector<std::uint32_t> params;  ///< of its modules, in the order in which modules() lists them; each once
};

/// The border of a module that was chosen as a unit and has none by its type.
class ChosenUnit final : public UnitBorder {};

/// A model by numbers: units in the order in which modules() lists them, parameters in the order of named_parameters(),
/// a tied one once.
struct ModelMap {
  std::vector<ParamEntry> params;
  std::vector<UnitEntry> units;
  std::unordered_map<const torch::nn::Module*, std::unique_ptr<ChosenUnit>> chosen;
};

/// Errors: usage, for a parameter in no unit, one that cannot be bound (parameter_checks.h), and a model without
/// parameters.
Result<ModelMap> map_model(torch::nn::Module& model, c10::Device device, const ModuleFilter& is_unit);

}  // namespace castor
