// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/memory/device.h>
#include <castor/memory/result.h>

#include "cli/cli.h"

namespace castor::bench {

/// Arrays begin and parts end at multiples of this many elements: 2 KiB of 16-bit values, whole lines and vectors.
inline constexpr std::uint64_t kElementGrain = 1024;

/// The options of `castor bench adam`.
struct AdamBenchOptions {
  std::vector<unsigned> threads;    ///< distinct, in the order given
  std::uint64_t n_elements = 0;     ///< a multiple of kElementGrain
  std::uint64_t part_elements = 0;  ///< likewise: the elements of one call of the loop in the cases with parts
  unsigned runs = 3;
  double seconds = 1;
  DeviceKind device = DeviceKind::cpu;
};

/// Usage, text and options of `castor bench adam`.
cli::CommandSyntax adam_syntax();

/// `n_cores`: CPUs that this process can use; without --threads, 1, 2 and all of them are measured. Errors: usage,
/// naming the option and the values it accepts.
Result<AdamBenchOptions> read_adam_options(const cli::Values& values, unsigned n_cores);

}  // namespace castor::bench
