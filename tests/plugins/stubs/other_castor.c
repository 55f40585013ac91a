/* SPDX-License-Identifier: Apache-2.0 */
/* Links a libcastor that is not the host's. */
#include "stub.h"

STUB("stub_other_castor", .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_LINKS_CASTOR, .castor_tag = "0.0.1")
