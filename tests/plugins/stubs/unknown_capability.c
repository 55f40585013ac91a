/* SPDX-License-Identifier: Apache-2.0 */
/* Needs something that this host has never heard of. */
#include "stub.h"

STUB("stub_unknown_capability", .capabilities = CASTOR_CAP_CPU | UINT64_C(1) << 40)
