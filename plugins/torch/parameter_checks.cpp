// SPDX-License-Identifier: Apache-2.0
#include "parameter_checks.h"

#include "device_memory.h"
#include "parameter_storage.h"

#include <c10/core/ScalarType.h>

#include <sstream>

namespace castor {
namespace {

constexpr const char* kOwnMemory = "; give it memory of its own: parameter.data = parameter.detach().clone()";

std::string text_of(at::IntArrayRef numbers) {
  std::ostringstream text;
  text << numbers;
  return text.str();
}

}  // namespace

bool computes(const at::Tensor& parameter) {
  const at::ScalarType dtype = parameter.scalar_type();
  return dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16;
}

Result<void> ParameterChecks::check(const std::string& name, const at::Tensor& parameter, bool declared) {
  const std::string found = defect(name, parameter, declared);
  return found.empty() ? Result<void>() : Error{ErrorKind::usage, "parameter " + name + ' ' + found};
}

std::string ParameterChecks::defect(const std::string& name, const at::Tensor& parameter, bool declared) {
  if (parameter.is_quantized()) return "is a quantized tensor; keep its values and scales as plain tensors";
  if (parameter.requires_grad() && !computes(parameter))
    return std::string("is ") + c10::toString(parameter.scalar_type()) +
           "; parameters that are trained are fp32, fp16 or bf16: cast the model before, as with model.float()";
  if (parameter.layout() != at::kStrided) return "is sparse; parameters are dense";
  if (numbered(parameter.device()) != device_)
    return "is on " + parameter.device().str() + ", the model trains on " + device_.str() + "; move it there";
  if (!parameter.is_leaf()) return "is the result of an operator; register its detach()";
  if (parameter.numel() == 0) return {};
  if (!declared && !parameter.is_meta() && !has_memory(storage_of(parameter)))
    return "has no memory, and no unit has declared its first values";
  const auto [other, is_new] = names_.emplace(&storage_of(parameter), name);
  if (!is_new) return "shares its storage with parameter " + other->second + kOwnMemory;
  return defect_of_storage(parameter);
}

std::string ParameterChecks::defect_of_storage(const at::Tensor& parameter) const {
  if (!parameter.is_non_overlapping_and_dense())
    return "has gaps or overlaps (sizes " + text_of(parameter.sizes()) + ", strides " + text_of(parameter.strides()) +
           ')' + kOwnMemory;
  const std::size_t n_bytes = storage_of(parameter).nbytes();
  if (parameter.storage_offset() == 0 && n_bytes == parameter.nbytes()) return {};
  return "is " + std::to_string(parameter.nbytes()) + " bytes at element " +
         std::to_string(parameter.storage_offset()) + " of a storage of " + std::to_string(n_bytes) + kOwnMemory;
}

}  // namespace castor
