/* SPDX-License-Identifier: Apache-2.0 */
/* Does not say what it is called. */
#include "stub.h"

STUB("stub", .name = NULL)
