/* SPDX-License-Identifier: Apache-2.0 */
/* Two options of one name. */
#include "stub.h"

static const castor_option *const OPTIONS[] = {
    STUB_OPTION(CASTOR_OPTION_INT, "depth", "1", 0, 8, NULL, "how deep"),
    STUB_OPTION(CASTOR_OPTION_BOOL, "depth", "true", 0, 0, NULL, "whether deep"),
};

STUB("stub_twin_options", .n_options = 2, .options = OPTIONS)
