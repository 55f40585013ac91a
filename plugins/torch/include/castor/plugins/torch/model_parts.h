// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace castor {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A piece of a model that is fetched and released as a whole.
struct UnitParts {
  std::string name;
  std::vector<std::size_t> params;  ///< that it reads, as positions in ModelParts::params
};

/// A model as lists, for programs whose modules are not LibTorch's. The program brings each forward pass of a unit into
/// the unit's border (Session::unit).
struct ModelParts {
  NamedTensors params;           ///< each tensor once, a tied one by one of its names
  std::vector<UnitParts> units;  ///< in the order in which they are used; a parameter may be in several
  /// By parameter: values to begin with, with its sizes and strides, in a dtype that may have more bits than its own, so
  /// that the masters have them. Empty, or undefined: the values that it has. On the meta device: zeros, until
  /// Session::load.
  std::vector<at::Tensor> first_values = {};
};

/// A tensor of the sizes and strides of `tensor`, in the dtype and on the device of `options`, without memory: a parameter
/// of a model that is given as parts, which boost() places.
at::Tensor unplaced_like(const at::Tensor& tensor, const at::TensorOptions& options);

/// Frees the memory of a tensor's storage, or gives it `memory` of `n_bytes`. Between them an access to it throws `why`,
/// and its size is 0.
void take_memory(const at::Tensor& tensor, const std::string& why);
void give_memory(const at::Tensor& tensor, c10::DataPtr memory, std::uint64_t n_bytes);

}  // namespace castor
