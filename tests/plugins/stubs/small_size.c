/* SPDX-License-Identifier: Apache-2.0 */
/* A description smaller than version 2.0 has. */
#include "stub.h"

STUB("stub_small_size", .struct_size = 24)
