/* SPDX-License-Identifier: Apache-2.0 */
/* Has nothing to call. */
#include "stub.h"

STUB("stub_no_create", .create = NULL)
