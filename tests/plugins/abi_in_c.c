/* SPDX-License-Identifier: Apache-2.0 */
#include "abi_layout.h"

const size_t abi_layout_in_c[ABI_LAYOUT_LENGTH] = ABI_LAYOUT;
