/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled against another major version. */
#include "stub.h"

STUB("stub_other_major", .abi_major = CASTOR_ABI_MAJOR + 1)
