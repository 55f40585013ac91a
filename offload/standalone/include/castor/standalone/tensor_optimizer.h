// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <castor/memory/dtype.h>
#include <castor/memory/result.h>
#include <castor/rules/update_rule.h>

namespace castor {

/// A tensor of the program's in host memory, which a TensorOptimizer updates.
struct TrainedTensor {
  DType dtype = DType::f32;  ///< of its weights: f32, bf16 or f16
  std::uint64_t n = 0;       ///< elements
};

struct TensorOptimizerOptions {
  bool keeps_exp_avg_sq = true;      ///< false: for rules with one moment
  std::vector<std::string> folders;  ///< of the states on NVMe, in files without a name, which end with the process
  double nvme_fraction = 0;          ///< share of the states there, 0 to 1, spread evenly over the tensors
  unsigned n_threads = 1;            ///< that update; at least 1
  unsigned n_spared_cpus = 0;        ///< the first CPUs, on which they do not run
};

/// The update of one tensor in a step.
struct TensorUpdate {
  std::uint32_t tensor = 0;    ///< its position
  void* weight = nullptr;      ///< read and written; an fp32 weight is its own master
  const void* grad = nullptr;  ///< read; in the order of the weight's elements
  DType grad_dtype = DType::f32;
  UpdateOptions rule;
  bool corrects_bias = true;  ///< false: the moments count as if there had been many updates
};

/// The states of a tensor, in fp32 and in the order of its elements; null pointers are left out.
struct TensorStates {
  float* master = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  std::uint64_t n_updates = 0;
};

/// Updates tensors that lie in the program's own memory, by the rules and with the bits of a Session, and keeps their
/// states: moments, and the fp32 masters of 16-bit weights. States on NVMe are read ahead of their
/// update and written behind it, through a window of a few tiles, while other tiles are updated; the last writes may go
/// on after step().
///
/// A master begins with the weight before its first update. A weight that the program changes later, so that it is
/// not its master rounded, is the master from then on.
///
/// Threads: one at a time.
class TensorOptimizer {
 public:
  /// Errors: usage, for a dtype or an option that cannot be; does_not_fit; io, where a folder cannot be used.
  static Result<std::unique_ptr<TensorOptimizer>> make(std::span<const TrainedTensor> tensors,
                                                       const TensorOptimizerOptions& options);
  virtual ~TensorOptimizer() = default;

  /// Updates the tensors that are named, once each, with gradients that are first multiplied by `grad_scale`. Errors:
  /// usage, for a tensor that there is not, or twice, and for LAMB and LARS on NVMe; io, and then part of the tensors are
  /// updated, and every later call fails.
  virtual Result<void> step(std::span<const TensorUpdate> updates, double grad_scale = 1) = 0;

  /// Reads the states of a tensor, which has `weight`; the moments of one that was not updated are zeros. Errors: io.
  virtual Result<void> read(std::uint32_t tensor, const void* weight, TensorStates& states) = 0;
  /// Replaces what is given, and `weight` where a master is. Errors: io.
  virtual Result<void> write(std::uint32_t tensor, void* weight, const TensorStates& states) = 0;

  /// Sentences about the speed of the NVMe folders; empty: all is well.
  virtual std::vector<std::string> warnings() const = 0;
  /// Bytes that were read from NVMe, and written there.
  virtual std::uint64_t bytes_read() const = 0;
  virtual std::uint64_t bytes_written() const = 0;
};

}  // namespace castor
