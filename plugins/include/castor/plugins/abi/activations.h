/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy's functions for bytes on the model's device that backward reads again and no operator reads until then
 * (the input of a part that is recomputed). How to read the list: abi/model.h. */

/* Offers bytes, as the compute stream has them now. The strategy copies them, and may move the copy off the device; the
 * host frees its own. *out is the copy's number, from 1 on; 0: the host has to keep the bytes itself. */
CASTOR_GET(CASTOR_REQUIRED, keep, uint32_t, (const void *data, uint64_t n_bytes), (data, n_bytes))
/* Returns device memory with the bytes, for work queued on the compute stream until they are forgotten. May wait. */
CASTOR_GET(CASTOR_REQUIRED, recall, void *, (uint32_t kept), (kept))
/* Drops the copy, whether recalled or not. Called once for each number that keep gave. */
CASTOR_CALL(CASTOR_REQUIRED, forget, (uint32_t kept), (kept))

#include <castor/plugins/abi/end.h>
