// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/torch/random.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace castor {

class Unit;

struct ParamEntry {
  std::string name;
  at::Tensor tensor;
  Init init;
  DLDataType dtype;
};

struct UnitEntry {
  std::string name;
  Unit* unit;
  std::vector<std::uint32_t> params;  ///< its own, then those it shares
};

/// A model by numbers: units in the order in which modules() lists them, parameters in the order of named_parameters(),
/// a tied one once.
struct ModelMap {
  std::vector<ParamEntry> params;
  std::vector<UnitEntry> units;
};

/// Errors: usage, for a parameter that no unit declared, one of another dtype than fp32, fp16 and bf16, one on
/// another device than `device`, and a model without parameters.
Result<ModelMap> map_model(const torch::nn::Module& model, c10::Device device);

}  // namespace castor
