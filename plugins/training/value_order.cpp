// SPDX-License-Identifier: Apache-2.0
#include "value_order.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <castor/plugins/dl_dtype.h>

namespace castor {
namespace {

bool is_alone(const castor_param_info& param, std::size_t dimension) { return param.shape[dimension] == 1; }

template <typename T>
T* start(const Buffer& buffer) {
  return reinterpret_cast<T*>(buffer.data());
}

}  // namespace

ValueOrder row_major_order(const castor_param_info& param) {
  ValueOrder order(static_cast<std::size_t>(param.ndim));
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0; stride *= param.shape[i]) order[i] = is_alone(param, i) ? 0 : stride;
  return order;
}

ValueOrder order_of(const castor_param_info& param) {
  if (param.strides == nullptr || param.numel == 0) return row_major_order(param);
  ValueOrder order(param.strides, param.strides + param.ndim);
  for (std::size_t i = 0; i < order.size(); ++i)
    if (is_alone(param, i)) order[i] = 0;
  return order;
}

bool is_dense(const ValueOrder& order, const castor_param_info& param) {
  if (order.size() != static_cast<std::size_t>(param.ndim)) return false;
  std::vector<std::size_t> by_stride(order.size());
  std::iota(by_stride.begin(), by_stride.end(), 0);
  std::sort(by_stride.begin(), by_stride.end(), [&](auto a, auto b) { return order[a] < order[b]; });
  std::int64_t expected = 1;
  for (const std::size_t i : by_stride) {
    if (order[i] != (is_alone(param, i) ? 0 : expected)) return false;
    expected *= param.shape[i];
  }
  return true;
}

Reordering::Reordering(const castor_param_info& param, const ValueOrder& from, const ValueOrder& to) {
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!is_alone(param, i))
      dimensions_.push_back({static_cast<std::uint64_t>(param.shape[i]), static_cast<std::uint64_t>(from[i]),
                             static_cast<std::uint64_t>(to[i])});
  std::sort(dimensions_.begin(), dimensions_.end(), [](const auto& a, const auto& b) { return a.from > b.from; });
}

void Reordering::place(std::uint64_t first, std::uint64_t n, const void* values, void* to,
                       std::uint64_t value_bytes) const {
  const auto* from = static_cast<const std::byte*>(values);
  for (std::uint64_t i = first; i < first + n; ++i, from += value_bytes) {
    std::uint64_t place = 0;
    for (const Dimension& d : dimensions_) place += i / d.from % d.size * d.to;
    std::memcpy(static_cast<std::byte*>(to) + place * value_bytes, from, value_bytes);
  }
}

Result<void> StateTurner::write(const castor_param_state& part) {
  const ParamId id{part.param};
  const castor_param_info& param = params_[id];
  if (saved_[id] == order_of(param)) return strategy_.values().write_state(part);
  Collected& collected = collected_[id];
  CASTOR_TRY(collect(part, param, collected));
  if (collected.n < param.numel) return {};
  castor_param_state whole = part;
  whole.first = 0, whole.n = param.numel;
  whole.opaque = collected.opaque.data(), whole.master = start<float>(collected.master);
  whole.exp_avg = start<float>(collected.exp_avg), whole.exp_avg_sq = start<float>(collected.exp_avg_sq);
  const auto written = strategy_.values().write_state(whole);
  collected_.erase(id);
  return written;
}

Result<void> StateTurner::collect(const castor_param_state& part, const castor_param_info& param,
                                  Collected& collected) {
  const Reordering reordering(param, saved_[ParamId{part.param}], order_of(param));
  const auto take = [&](const void* values, Buffer& whole, std::uint64_t each_bytes) -> Result<void> {
    if (values == nullptr) return {};
    if (!whole) {
      CASTOR_ASSIGN(whole, Buffer::allocate(pages_, param.numel * each_bytes));
    }
    reordering.place(part.first, part.n, values, whole.data(), each_bytes);
    return {};
  };
  CASTOR_TRY(take(part.opaque, collected.opaque, master_format(param).value_bytes));
  CASTOR_TRY(take(part.master, collected.master, sizeof(float)));
  CASTOR_TRY(take(part.exp_avg, collected.exp_avg, sizeof(float)));
  CASTOR_TRY(take(part.exp_avg_sq, collected.exp_avg_sq, sizeof(float)));
  collected.n += part.n;
  return {};
}

}  // namespace castor
