/* SPDX-License-Identifier: Apache-2.0 */
/* Sound, but trains on a GPU only. */
#include "stub.h"

STUB("stub_cuda_only", .capabilities = CASTOR_CAP_CUDA)
