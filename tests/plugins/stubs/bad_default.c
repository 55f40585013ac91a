/* SPDX-License-Identifier: Apache-2.0 */
/* A default outside its own range. */
#include "stub.h"

static const castor_option *const OPTIONS[] = {STUB_OPTION(CASTOR_OPTION_INT, "depth", "9", 0, 8, NULL, "how deep")};

STUB("stub_bad_default", .n_options = 1, .options = OPTIONS)
