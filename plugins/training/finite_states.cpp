// SPDX-License-Identifier: Apache-2.0
#include <castor/training/finite_states.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace castor {
namespace {

constexpr std::uint32_t kExponent = 0x7f80'0000U;  ///< all ones in inf and nan alone
constexpr std::uint64_t kPieceValues = 1 << 20;    ///< that are read at once, of each array

}  // namespace

bool all_finite(std::span<const float> values) {
  bool finite = true;
  for (const float value : values) finite &= (std::bit_cast<std::uint32_t>(value) & kExponent) != kExponent;
  return finite;
}

std::optional<std::string> not_finite_in(const castor_param_state& state) {
  for (const auto& [name, values] : {std::pair("master", state.master), std::pair("exp_avg", state.exp_avg),
                                     std::pair("exp_avg_sq", state.exp_avg_sq)})
    if (values != nullptr && !all_finite({values, state.n})) return name;
  return std::nullopt;
}

Result<std::optional<std::string>> first_not_finite(const ModelParams& params, Strategy& strategy) {
  std::uint64_t most_values = 0;
  for (const castor_param_info& param : params) most_values = std::max(most_values, param.numel);
  std::vector<float> arrays(3 * std::min(most_values, kPieceValues));
  const std::uint64_t n_piece = arrays.size() / 3;
  for (const ParamId id : params.ids()) {
    if (is_opaque(params[id])) continue;
    for (std::uint64_t first = 0; first < params[id].numel; first += n_piece) {
      std::fill(arrays.begin(), arrays.end(), 0.0F);  // arrays that the parameter has not are left as they are
      auto state = blank<castor_param_state>();
      state.param = number(id), state.first = first, state.n = std::min(n_piece, params[id].numel - first);
      state.master = arrays.data();
      if (is_trainable(params[id]))
        state.exp_avg = arrays.data() + n_piece, state.exp_avg_sq = arrays.data() + 2 * n_piece;
      CASTOR_TRY(strategy.values().read_state(state));
      if (const auto array = not_finite_in(state)) return std::optional(*array + " of " + params[id].name);
    }
  }
  return std::optional<std::string>();
}

Error not_finite_error(const std::string& array) {
  return {ErrorKind::failed, array +
                                 " holds inf or nan, so the state is not saved, and the last one that was saved "
                                 "stays; continue from there with a lower learning rate or clipped gradients"};
}

}  // namespace castor
