/* SPDX-License-Identifier: Apache-2.0 */
/* The host's functions for memory of the allocator that the model's own tensors come from, so that one budget holds
 * both. All are there, or the table is null. How to read the list: abi/model.h. */

/* Memory that is ordered on the compute stream. CASTOR_DOES_NOT_FIT leaves everything as it was. */
CASTOR_GET(CASTOR_REQUIRED, allocate, void *, (uint64_t n_bytes), (n_bytes))
CASTOR_VALUE(deallocate, void, (void *data, uint64_t n_bytes), (data, n_bytes))
CASTOR_GET0(CASTOR_REQUIRED, memory, castor_device_memory)
CASTOR_VALUE0(reset_peak, void)

/* Before the first allocate: asks the allocator to build each allocation whose size is a multiple of `n_bytes`, itself a
 * multiple of 2 MiB, from pages of `n_bytes`, so that no holes are left between such sizes. Returns 1 where it will, 0
 * where it cannot. May be called for several page sizes; the first that divides a size counts. */
CASTOR_VALUE(use_pages, int32_t, (uint64_t n_bytes), (n_bytes))

#include <castor/plugins/abi/end.h>
