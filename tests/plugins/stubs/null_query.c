/* SPDX-License-Identifier: Apache-2.0 */
/* Returns no description. */
#include "stub.h"

const castor_plugin_info *castor_plugin_query_v2(void) { return NULL; }
