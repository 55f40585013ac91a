/* SPDX-License-Identifier: Apache-2.0 */
/* Links a LibTorch that is not the host's. */
#include "stub.h"

STUB("stub_other_torch", .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_LINKS_TORCH, .torch_tag = "torch-1.0.0+cpu")
