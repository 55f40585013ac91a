// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/dtype.h>
#include <castor/rules/state_format.h>

#include "forecast/shapes/model_shapes.h"

namespace castor::estimate {

/// The data and the settings of one training step.
struct Workload {
  std::uint64_t batch = 8;           ///< samples
  std::uint64_t seq = 1024;          ///< tokens of a sample; images have as many as their patches
  DType precision = DType::bf16;     ///< of weights and activations
  bool recompute = false;            ///< each block's forward runs again in backward
  bool clip = false;                 ///< the norm of all gradients is measured before the first update
  bool offload_activations = false;  ///< inputs of recomputed blocks are chunks
  bool overlap_updates = true;       ///< updates on the host run beside the training thread
  bool speculative_updates = true;   ///< with `clip`, updates begin before the norm is known if the host has room for
                                     ///< them
  StateFormat format = {.split_master = true};
  bool measures_weights = false;    ///< LARS: norms of weights and gradients before each chunk's update
  bool measures_direction = false;  ///< LAMB: norms of masters and directions before each tensor's update

  bool inputs_in_chunks() const { return recompute && offload_activations; }
};

/// Tokens that one step passes through the blocks.
std::uint64_t n_tokens(const shapes::Model& model, const Workload& work);

/// Floating-point operations of unit `unit` in one forward pass; backward takes twice as many.
///
/// 2 per weight and token (a product and a sum), and after the unit that attends 4·s²·hidden per sample for scores and
/// values, half of it if the model is causal. Lookup tables take none.
double forward_flops(const shapes::Model& model, UnitId unit, const Workload& work);

/// Bytes of a block's input, which is kept if the block is recomputed.
std::uint64_t block_input_bytes(const shapes::Model& model, const Workload& work);

/// Bytes that the device holds beside the chunks at the peak.
struct NonModel {
  std::uint64_t kept_bytes = 0;      ///< from the forward pass for the backward pass
  std::uint64_t at_once_bytes = 0;   ///< the larger of the loss and of one block's backward
  std::uint64_t gradient_bytes = 0;  ///< of the unit with the most parameters, until they are copied to their chunk

  std::uint64_t total_bytes() const { return kept_bytes + at_once_bytes + gradient_bytes; }
};

/// Source: Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022, equations 1 and
/// 6, without dropout and without attention scores; the loss is that of examples/models/cross_entropy.cpp.
/// docs/planning.md has the formula and its known errors.
NonModel non_model(const shapes::Model& model, const Workload& work);

}  // namespace castor::estimate
