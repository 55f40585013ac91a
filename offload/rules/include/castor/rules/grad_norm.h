// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <castor/memory/device.h>
#include <castor/memory/dtype.h>
#include <castor/memory/result.h>

namespace castor {

/// Children of a node in the tree that fixes the order in which a norm is summed.
inline constexpr std::uint64_t kNormFan = 256;
/// Elements of a row, the lowest node: a tensor may be cut into parts between any two of its rows.
inline constexpr std::uint64_t kNormRow = kNormFan;
/// Elements of a block, the node over kNormFan rows.
inline constexpr std::uint64_t kNormBlock = kNormFan * kNormRow;
/// Rows of `n` elements.
constexpr std::uint64_t n_norm_rows(std::uint64_t n) { return (n + kNormRow - 1) / kNormRow; }
/// Blocks of a tensor of `n` elements.
constexpr std::uint64_t n_norm_blocks(std::uint64_t n) { return (n + kNormBlock - 1) / kNormBlock; }

/// The sum of squares of one tensor's gradient in fp64, in an order that depends on its length alone: never on chunk,
/// shard, tier or thread.
///
/// Squares are exact in fp64. They are the leaves of a tree: a row is the node over kNormFan consecutive squares, a
/// block the node over kNormFan rows, and nodes of kNormFan follow above the blocks until one is left. A node folds its
/// children in halves: child j takes child j + 128, then j + 64, … j + 1; children that the tensor does not have are
/// left out. Infinities and NaNs propagate (NaN as 0x7ff8000000000000): a sum that is not finite means a gradient that
/// is not.
class GradNormKernel {
 public:
  virtual ~GradNormKernel() = default;
  /// Queues the sum over `n` elements of `dtype` at `grad` on `stream`, and the copy of the result to `*sum` in memory
  /// of host or device; read it after the event of the stream. A host kernel runs at once on the calling thread. On a
  /// GPU the call waits for the stream where `sum` is in ordinary memory.
  ///
  /// Threads: on the host any number at a time; on a GPU one, with all calls on one stream, since the kernel keeps
  /// partial sums between its two halves.
  /// Errors: failed; does_not_fit, where the scratch for those (8 B per block of the longest tensor so far, and 1/255
  /// more) cannot grow.
  virtual Result<void> sum_of_squares(Stream& stream, const void* grad, DType dtype, std::uint64_t n, double* sum) = 0;
};

std::unique_ptr<GradNormKernel> make_host_grad_norm();

/// The first half of the host's sum, which many threads can share: writes the sums of `n_blocks` blocks, from
/// `first_block` on, of a gradient of `n` elements to `sums`. Requires: the blocks exist (ContractViolation).
void sum_norm_blocks(const void* grad, DType dtype, std::uint64_t n, std::uint64_t first_block, std::uint64_t n_blocks,
                     double* sums);
/// The second half: the sum of a tensor, from those of all its blocks.
double add_norm_blocks(std::span<const double> sums);

/// The kernel for `device`: the host's loop on the CPU, a CUDA kernel on a GPU.
Result<std::unique_ptr<GradNormKernel>> make_grad_norm(const Device& device);

/// The factor by which a step multiplies every gradient, and whether the step is skipped.
struct StepScale {
  bool skip = false;      ///< a gradient was inf or nan
  double grad_norm = 0;   ///< of the unscaled gradients
  double grad_scale = 1;  ///< clip_factor / loss_scale
};

/// min(1, max_norm / (norm + 1e-6)); 1 for a `max_norm` of 0, which does not clip.
/// Source: torch.nn.utils.clip_grad_norm_.
double clip_factor(double norm, double max_norm);

/// Combines the per-tensor sums, in registration order. `max_norm` 0 = no clipping. Requires: `loss_scale` is positive
/// (ContractViolation). A step that is skipped has a grad_norm that is not finite, for the log, and an unclipped
/// grad_scale, which has no use.
StepScale combine_norms(const double* sums, std::uint64_t n_tensors, double max_norm, double loss_scale);

}  // namespace castor
