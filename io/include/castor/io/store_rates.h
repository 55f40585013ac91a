// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/io/tensor_store.h>

namespace castor {

/// What a store on some folders moves, in bytes per second, each direction alone.
struct StoreRates {
  double read = 0;
  double write = 0;
};

/// Opens a store of its own in the folders of `options`, moves values of 32 MiB, 256 MiB each way, and takes everything
/// away again. About half a second on a drive of 2 GB/s. For a benchmark beside the drive's own pace: `castor bench io`.
/// Errors: as TensorStore::open, put and get; does_not_fit where the budget or the machine has less.
/// Threads: blocks the calling one.
Result<StoreRates> calibrate_store(const TensorStoreOptions& options);

}  // namespace castor
