/* SPDX-License-Identifier: Apache-2.0 */
/* Has no create function. */
#include "stub.h"

STUB("stub_no_create", .create = NULL)
