// SPDX-License-Identifier: Apache-2.0
// read_run_header on any text: no crash, no exception, no order that memory does not have, and a bounded sentence.
#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "run_header.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::array<std::int64_t, 3> kShape = {2, 3, 4}, kStrides = {1, 8, 2};

const castor::ModelParams& params() {
  static const castor::ModelParams made = [] {
    auto weight = castor::blank<castor_param_info>();
    weight.name = "weight", weight.flags = CASTOR_PARAM_TRAINABLE, weight.numel = 24;
    weight.shape = kShape.data(), weight.strides = kStrides.data(), weight.ndim = 3;
    weight.dtype = {kDLBfloat, 16, 1};
    castor::ModelParams list;
    list.push_back(weight);
    return list;
  }();
  return made;
}

const castor::Trained kTrained = {"the model", CASTOR_ADAMW};

std::string valid_header() {
  castor::RunState run{3, castor::DynamicGradScaler::State{65536, 1, 2}, "batch 3", {{"seed", "0"}}};
  nlohmann::json header = castor::run_header(kTrained, params(), run);
  header["updates"] = {3};
  return header.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto header = castor::read_run_header("/saved", text, kTrained, params());
  if (!header.ok()) return header.error().message.size() < 1500 ? 0 : (std::abort(), 0);
  for (const castor::ParamId id : params().ids())
    if (!castor::is_dense(header->orders[id], params()[id])) std::abort();
  return 0;
}

/// One in 16 inputs is a header, changed at one place.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  static const std::string valid = valid_header();
  if (seed % 16 != 0 || max_size < valid.size()) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, valid.data(), valid.size());
  return LLVMFuzzerMutate(data, valid.size(), max_size);
}
