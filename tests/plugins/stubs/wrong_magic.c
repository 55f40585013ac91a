/* SPDX-License-Identifier: Apache-2.0 */
/* The magic number of another kind of library. */
#include "stub.h"

STUB("stub_wrong_magic", .magic = 0x4d414749u)
