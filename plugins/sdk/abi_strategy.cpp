// SPDX-License-Identifier: Apache-2.0
#include "abi_strategy.h"

#include <castor/plugins/option_values.h>
#include <castor/plugins/step_args.h>

#include <string>
#include <utility>

#include "call_rows.h"
#include "strategy_check.h"

namespace castor::sdk {

AbiStrategy::AbiStrategy(std::unique_ptr<Border> border, const castor_strategy_v2& table, GradientCheck gradients)
    : PluginStrategy(table, border->errors),
      border_(std::move(border)),
      table_(table),
      gradients_(std::move(gradients)) {}

Result<const castor_strategy_v2*> AbiStrategy::create(const Plugin& plugin, Border& border,
                                                      const PluginOptions& options) {
  const OptionValues values(options);
  const auto crossing = values.view();
  const castor_strategy_v2* table = nullptr;
  const castor_status status = plugin.info->create(&border.host.table(), crossing.data(), crossing.size(), &table);
  if (status != CASTOR_OK) return border.errors.error_of(status, "create");
  if (table == nullptr) return border.errors.broken("created no strategy and reported no error");
  return table;
}

Result<std::unique_ptr<AbiStrategy>> AbiStrategy::make(const Plugin& plugin, ModelHost& model,
                                                       const PluginOptions& options) {
  CASTOR_ASSIGN(auto gradients, GradientCheck::make(model));
  auto border = std::make_unique<Border>(plugin, model);
  CASTOR_ASSIGN(const castor_strategy_v2* const table, create(plugin, *border, options));
  const std::string defect = defect_of(*table, border->errors);
  if (!defect.empty()) {
    if (can_be_destroyed(*table)) table->destroy(table->self);
    return border->errors.broken(defect);
  }
  return std::unique_ptr<AbiStrategy>(new AbiStrategy(std::move(border), *table, std::move(gradients)));
}

Result<void> AbiStrategy::gradient(std::uint32_t param, DLManagedTensor* grad) {
  static constexpr CallNeed kNeed = need_of_step_call("gradient");
  auto checked = order().admit(kNeed, "gradient");
  if (checked.ok()) checked = gradients_.check(param, grad->dl_tensor);
  if (checked.ok()) return PluginStrategy::gradient(param, grad);
  if (grad->deleter != nullptr) grad->deleter(grad);
  return checked;
}

Result<void> AbiStrategy::announce_step(const castor_step_args& args) {
  CASTOR_TRY(check_step_args(args, gradients_.n_params()));
  return PluginStrategy::announce_step(args);
}

Result<std::uint64_t> AbiStrategy::begin_step(const castor_step_args& args) {
  CASTOR_TRY(check_step_args(args, gradients_.n_params()));
  return PluginStrategy::begin_step(args);
}

}  // namespace castor::sdk
