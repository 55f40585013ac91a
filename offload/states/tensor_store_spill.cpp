// SPDX-License-Identifier: Apache-2.0
#include <castor/states/tensor_store_spill.h>

#include <castor/memory/bytes.h>
#include <castor/memory/shortage.h>

namespace castor {

Result<void> TensorStoreSpill::check_room(std::uint64_t n_bytes, const std::string& label) const {
  if (budget_ == nullptr || n_bytes + kPaddingBytes <= budget_->free_bytes()) return {};
  const std::uint64_t wanted_bytes = budget_->stated_for(n_bytes + kPaddingBytes);
  return does_not_fit({Tier::nvme, wanted_bytes, budget_->limit_bytes()},
                      "nvme tier: " + label + " needs " + format_bytes(n_bytes) + ", " +
                          format_bytes(budget_->free_bytes()) + " are free under the " +
                          format_bytes(budget_->limit_bytes()) + " budget; raise `nvme_budget` to " +
                          format_bytes_up(wanted_bytes) + " or more");
}

}  // namespace castor
