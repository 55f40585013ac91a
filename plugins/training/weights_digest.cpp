// SPDX-License-Identifier: Apache-2.0
#include <castor/training/weights_digest.h>

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <memory>

#include <castor/plugins/dl_dtype.h>
#include <castor/training/model_params.h>

namespace castor {
namespace {

static_assert(std::endian::native == std::endian::little, "the digest is defined over little-endian masters");

std::uint64_t master_bytes(const castor_param_info& param) { return param.numel * master_format(param).value_bytes; }

std::string hex(std::uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest);
  return text;
}

}  // namespace

Result<std::uint64_t> count_params(ModelHost& model) {
  CASTOR_ASSIGN(const auto params, params_of(model));
  std::uint64_t numel = 0;
  for (const castor_param_info& param : params) numel += param.numel;
  return numel;
}

Result<std::string> weights_digest(ModelHost& model, Strategy& strategy) {
  CASTOR_ASSIGN(const auto params, params_of(model));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::uint64_t most_bytes = 0;
  for (const castor_param_info& param : params) most_bytes = std::max(most_bytes, master_bytes(param));
  const auto values = std::make_unique_for_overwrite<std::byte[]>(most_bytes);
  for (const ParamId id : params.ids()) {
    CASTOR_TRY(strategy.values().read_masters(
        {sizeof(castor_values), number(id), 0, CASTOR_ALL, master_format(params[id]).form, values.get()}));
    XXH3_64bits_update(state.get(), values.get(), master_bytes(params[id]));
  }
  return hex(XXH3_64bits_digest(state.get()));
}

}  // namespace castor
