/* SPDX-License-Identifier: Apache-2.0 */
/* Needs a capability that this host does not know. */
#include "stub.h"

STUB("stub_unknown_capability", .capabilities = CASTOR_CAP_CPU | UINT64_C(1) << 40)
