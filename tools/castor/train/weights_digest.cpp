// SPDX-License-Identifier: Apache-2.0
#include "train/weights_digest.h"

#include <xxhash.h>

#include <bit>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

namespace castor::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the digest is defined over little-endian masters");

Result<castor_param_info> param_info(ModelHost& model, std::uint32_t id) {
  const castor_host_v1& host = model.table();
  castor_param_info info = {};
  if (host.param_info(host.self, id, &info) == CASTOR_OK) return info;
  return Error{ErrorKind::failed, "parameter " + std::to_string(id) + ": " + model.take_error()};
}

std::uint32_t n_params(ModelHost& model) { return model.table().n_params(model.table().self); }

std::string hex(std::uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest);
  return text;
}

}  // namespace

Result<std::uint64_t> count_params(ModelHost& model) {
  std::uint64_t numel = 0;
  for (std::uint32_t id = 0; id < n_params(model); ++id) {
    CASTOR_ASSIGN(const castor_param_info info, param_info(model, id));
    numel += info.numel;
  }
  return numel;
}

Result<std::string> weights_digest(ModelHost& model, Strategy& strategy) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<float> master;
  for (std::uint32_t id = 0; id < n_params(model); ++id) {
    CASTOR_ASSIGN(const castor_param_info info, param_info(model, id));
    master.resize(info.numel);
    CASTOR_TRY(strategy.read_master(id, master.data()));
    XXH3_64bits_update(state.get(), master.data(), master.size() * sizeof(float));
  }
  return hex(XXH3_64bits_digest(state.get()));
}

}  // namespace castor::train
