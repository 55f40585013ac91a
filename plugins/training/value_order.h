// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>
#include <castor/plugins/strategy.h>
#include <castor/training/model_params.h>

namespace castor {

/// How the values of a parameter lie in memory: the stride of each dimension, 0 where it has one element.
using ValueOrder = std::vector<std::int64_t>;
using ValueOrders = IndexedVector<ParamId, ValueOrder>;

/// The parameter's own, and that of a contiguous one.
ValueOrder order_of(const castor_param_info& param);
ValueOrder row_major_order(const castor_param_info& param);

/// Whether the values of `param` fill memory without gaps in `order`.
bool is_dense(const ValueOrder& order, const castor_param_info& param);

/// Moves values from memory in one order to memory in another.
class Reordering {
 public:
  /// Requires: both orders are dense.
  Reordering(const castor_param_info& param, const ValueOrder& from, const ValueOrder& to);

  /// Puts `n` values, those from the `first` of the one order on, to their places in the other. Requires: values of one
  /// size, of which `to` has room for all.
  void place(std::uint64_t first, std::uint64_t n, const void* values, void* to, std::uint64_t value_bytes) const;

 private:
  struct Dimension {
    std::uint64_t size, from, to;  ///< its strides
  };

  std::vector<Dimension> dimensions_;  ///< by stride in `from`, the largest first
};

/// Writes states to a strategy that were saved in parameters' memory of another order: those parameters are collected
/// as a whole before they are written, others pass at once.
class StateTurner {
 public:
  /// `saved`: by parameter, the order in which its values come. All are borrowed.
  StateTurner(Strategy& strategy, const ModelParams& params, const ValueOrders& saved)
      : strategy_(strategy), params_(params), saved_(saved) {}

  /// Takes parts in any order, each once, with the same arrays for all parts of a parameter. Errors: does_not_fit for a
  /// parameter to collect, which takes host memory beside budgets; those of write_state.
  Result<void> write(const castor_param_state& part);

 private:
  /// What has come of a parameter.
  struct Collected {
    Buffer opaque, master, exp_avg, exp_avg_sq;
    std::uint64_t n = 0;
  };

  Result<void> collect(const castor_param_state& part, const castor_param_info& param, Collected& collected);

  Strategy& strategy_;
  const ModelParams& params_;
  const ValueOrders& saved_;
  HostResource pages_;
  std::map<ParamId, Collected> collected_;
};

}  // namespace castor
