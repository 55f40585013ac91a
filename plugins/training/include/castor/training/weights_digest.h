// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <castor/plugins/booster.h>
#include <castor/plugins/strategy.h>

namespace castor {

/// Elements of all parameters of `model`; a tied parameter counts once.
Result<std::uint64_t> count_params(ModelHost& model);

/// xxh3-64, as 16 hexadecimal digits, of the fp32 masters of all parameters (of opaque ones their own values),
/// little-endian and unpadded, in the order of named_parameters, a tied one once: equal digests mean equal bits. Reads
/// one parameter at a time into host memory, outside every budget.
/// Errors: those of ValueCalls::read_masters.
Result<std::string> weights_digest(ModelHost& model, Strategy& strategy);

}  // namespace castor
