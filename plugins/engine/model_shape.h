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
  TensorSpec spec;
  bool empty() const { return spec.numel == 0; }
};

/// The model as the host table describes it, read once.
struct ModelShape {
  IndexedVector<ParamId, ParamShape> params;
  IndexedVector<UnitId, std::string> unit_names;
  IndexedVector<UnitId, std::vector<ParamId>> units;  ///< the parameters of each
  IndexedVector<TensorId, ParamId> order;             ///< parameters with elements, by their first use

  /// Errors: usage where a parameter belongs to no unit or has a dtype that chunks do not hold.
  static Result<ModelShape> read(ModelHost& host);
};

}  // namespace castor
