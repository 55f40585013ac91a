/* SPDX-License-Identifier: Apache-2.0 */
/* Has no name. */
#include "stub.h"

STUB("stub", .name = NULL)
