// SPDX-License-Identifier: Apache-2.0
#include "lent_for_writing.h"

#include "../parameter_storage.h"

#include <functional>
#include <string_view>

namespace castor {
namespace {

std::size_t digest_of(const at::Tensor& weight) {
  const at::Tensor values = in_storage_order(weight).cpu();
  return std::hash<std::string_view>()({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
}

}  // namespace

void LentForWriting::lend(const std::vector<std::uint32_t>& ids) {
  for (const std::uint32_t id : ids) {
    const auto [lent, is_first] = lent_.try_emplace(id);
    if (is_first) lent->second.digest = digest_of(params_.at(id).second);
    ++lent->second.n;
  }
}

std::vector<std::uint32_t> LentForWriting::written(const std::vector<std::uint32_t>& ids) const {
  std::vector<std::uint32_t> found;
  for (const std::uint32_t id : ids) {
    const auto lent = lent_.find(id);
    if (lent != lent_.end() && lent->second.digest != digest_of(params_.at(id).second)) found.push_back(id);
  }
  return found;
}

void LentForWriting::take_back(const std::vector<std::uint32_t>& ids) {
  for (const std::uint32_t id : ids) {
    const auto lent = lent_.find(id);
    if (lent != lent_.end() && --lent->second.n == 0) lent_.erase(lent);
  }
}

}  // namespace castor
