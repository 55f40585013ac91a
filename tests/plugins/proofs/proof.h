/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that both proofs have in common with any plugin. */
#ifndef CASTOR_TESTS_PLUGINS_PROOF_H_
#define CASTOR_TESTS_PLUGINS_PROOF_H_

#include "../stubs/stub.h"

enum { ALIGN_BYTES = 512 };
static const uint32_t WORLD = 0;
static const DLDataType FP32 = {kDLFloat, 32, 1};

static inline castor_status no_memory(const castor_host_v2 *host) {
  return stub_fail(host, CASTOR_DOES_NOT_FIT, "the host has no memory left");
}

static inline float *aligned_floats(uint64_t n) {
  return aligned_alloc(ALIGN_BYTES, (n * sizeof(float) / ALIGN_BYTES + 1) * ALIGN_BYTES);
}

static inline castor_status no_stats(void *self, castor_stats *out) {
  (void)self;
  for (int tier = 0; tier < CASTOR_N_TIERS; ++tier) out->budget_bytes[tier] = UINT64_MAX;
  return CASTOR_OK;
}

#endif /* CASTOR_TESTS_PLUGINS_PROOF_H_ */
