// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/io/tensor_store.h>

namespace castor {

/// The throughput of a store on some folders, in bytes per second: each direction alone, and both at once in equal
/// parts.
struct StoreRates {
  double read = 0;
  double write = 0;
  double both = 0;  ///< bytes read and bytes written together

  /// The part of a byte's time in one direction that the other direction loses: 1 where they take turns, 0 where
  /// neither slows the other.
  double share() const;
};

/// Opens a store of its own in the folders of `options`, moves values of 32 MiB, 256 MiB for each figure, and removes
/// everything again. About 0.7 seconds on a drive of 2 GB/s. `castor bench io` compares a store with the drive itself.
/// Errors: as TensorStore::open, put and get; does_not_fit where the budget or the machine has less.
/// Threads: blocks the calling one.
Result<StoreRates> calibrate_store(const TensorStoreOptions& options);

}  // namespace castor
