// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/tile_states.h>

#include <cstring>

namespace castor {
namespace {

void widen(const void* stored, DType dtype, float* values, std::uint64_t n) {
  if (values != nullptr && stored != nullptr) widen_weights(stored, dtype, values, n);
}

void narrow(const float* values, DType dtype, void* stored, std::uint64_t n) {
  if (values != nullptr && stored != nullptr) round_weights(values, dtype, stored, n);
}

}  // namespace

TileStates::TileStates(std::byte* data, std::uint64_t numel, DType weights, const StateFormat& format)
    : data_(data), numel_(numel), weights_(weights), format_(format) {}

void TileStates::point(UpdateArrays& arrays, std::uint64_t first) const {
  const bool split = format_.splits(weights_);
  std::byte* array = data_;
  const auto next = [&](std::uint64_t width) {
    std::byte* const found = array + first * width;
    array += numel_ * width;
    return found;
  };
  const bool kept = format_.keeps_master(weights_);
  std::byte* const masters = next(split ? 2 : kept ? 4 : 0);
  arrays.master = split ? nullptr : kept ? reinterpret_cast<float*>(masters) : static_cast<float*>(arrays.weight);
  arrays.master_low = split ? reinterpret_cast<std::uint16_t*>(masters) : nullptr;
  arrays.exp_avg = next(size_bytes(exp_avg_dtype(format_.moments)));
  arrays.exp_avg_sq = format_.keeps_exp_avg_sq ? next(size_bytes(exp_avg_sq_dtype(format_.moments))) : nullptr;
  arrays.moments = format_.moments;
}

void TileStates::clear(std::uint64_t first, std::uint64_t n) const {
  UpdateArrays stored;
  point(stored, first);
  if (stored.master_low != nullptr)
    std::memset(stored.master_low, 0, n * sizeof(std::uint16_t));
  else if (stored.master != nullptr)
    std::memset(stored.master, 0, n * sizeof(float));
  std::memset(stored.exp_avg, 0, n * size_bytes(exp_avg_dtype(format_.moments)));
  if (stored.exp_avg_sq) std::memset(stored.exp_avg_sq, 0, n * size_bytes(exp_avg_sq_dtype(format_.moments)));
}

void TileStates::read(std::uint64_t first, std::uint64_t n, const std::byte* weight, float* master, float* exp_avg,
                      float* exp_avg_sq) const {
  UpdateArrays stored;
  stored.weight = const_cast<std::byte*>(weight);
  point(stored, first);
  if (stored.master_low == nullptr)
    widen(stored.master, DType::f32, master, n);
  else if (master != nullptr)
    join_masters(reinterpret_cast<const std::uint16_t*>(weight), stored.master_low, master, n);
  widen(stored.exp_avg, exp_avg_dtype(format_.moments), exp_avg, n);
  widen(stored.exp_avg_sq, exp_avg_sq_dtype(format_.moments), exp_avg_sq, n);
}

void TileStates::write(std::uint64_t first, std::uint64_t n, std::byte* weight, const float* master,
                       const float* exp_avg, const float* exp_avg_sq) const {
  UpdateArrays stored;
  stored.weight = weight;
  point(stored, first);
  if (master != nullptr && stored.master_low != nullptr) {
    split_masters(master, reinterpret_cast<std::uint16_t*>(weight), stored.master_low, n);
  } else if (master != nullptr) {
    std::memcpy(stored.master, master, n * sizeof(float));
    round_weights(master, weights_, weight, n);
  }
  narrow(exp_avg, exp_avg_dtype(format_.moments), stored.exp_avg, n);
  narrow(exp_avg_sq, exp_avg_sq_dtype(format_.moments), stored.exp_avg_sq, n);
}

}  // namespace castor
