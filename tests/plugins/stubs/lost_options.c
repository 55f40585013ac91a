/* SPDX-License-Identifier: Apache-2.0 */
/* Declares options and lists none. */
#include "stub.h"

STUB("stub_lost_options", .n_options = 2)
