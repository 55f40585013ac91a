// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/plugins/model_host.h>

namespace castor {

/// One parameter as the host table describes it.
struct ParamShape {
  std::string name;
  TensorSpec spec;                     ///< as it is kept
  std::uint64_t elements_a_value = 1;  ///< of `spec`: the bytes, of an opaque one

  bool empty() const { return spec.numel == 0; }
  bool is_opaque() const { return spec.dtype == DType::u8; }
  std::uint64_t n_values() const { return spec.numel / elements_a_value; }
};

/// The model as the host table describes it, read once.
struct ModelShape {
  IndexedVector<ParamId, ParamShape> params;
  IndexedVector<UnitId, std::string> unit_names;
  IndexedVector<UnitId, std::vector<ParamId>> units;  ///< the parameters of each
  IndexedVector<TensorId, ParamId> order;             ///< parameters with elements, by their first use

  /// Errors: usage where a parameter belongs to no unit; kept_dtype's.
  static Result<ModelShape> read(ModelHost& host);
};

}  // namespace castor
