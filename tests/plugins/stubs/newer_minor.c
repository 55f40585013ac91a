/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled against a newer minor version. */
#include "stub.h"

STUB("stub_newer_minor", .abi_minor = CASTOR_ABI_MINOR + 7)
