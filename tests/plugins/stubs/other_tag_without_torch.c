/* SPDX-License-Identifier: Apache-2.0 */
/* Carries a build tag but links no LibTorch: the tag is ignored, and it loads. */
#include "stub.h"

STUB("stub_other_tag_without_torch", .torch_tag = "torch-1.0.0+cpu")
