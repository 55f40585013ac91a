// SPDX-License-Identifier: Apache-2.0
#include "train/choices.h"

#include <vector>

#include <castor/plugins/plugin_loader.h>
#include <castor/training/plugin_folders.h>

namespace castor::train {
namespace {

Result<StrategyChoice> resident(const TrainOptions& options) {
  CASTOR_TRY(plugin_options(options, "none", {"moments"}));
  if (!options.set.empty())
    return Error{ErrorKind::usage, "--set " + options.set.begin()->first + "=: plugin 'none' has no options"};
  if (!options.trace.empty()) return Error{ErrorKind::usage, "--trace: plugin 'none' moves nothing and keeps no trace"};
  return StrategyChoice(Resident{options.moments});
}

}  // namespace

Optimizer optimizer_of(const TrainOptions& options) {
  const double lr = options.lr_schedule.lr, decay = options.weight_decay;
  const auto& [momentum, nesterov, trust_coefficient] = options.momentum;
  switch (options.optimizer) {
    case CASTOR_ADAM: return Adam{.lr = lr, .weight_decay = decay};
    case CASTOR_SGD: return Sgd{.lr = lr, .momentum = momentum, .weight_decay = decay, .nesterov = nesterov};
    case CASTOR_LARS:
      return Lars{.lr = lr,
                  .momentum = momentum,
                  .weight_decay = decay,
                  .nesterov = nesterov,
                  .trust_coefficient = trust_coefficient};
    case CASTOR_LAMB: return Lamb{.lr = lr, .weight_decay = decay};
    default: return AdamW{.lr = lr, .weight_decay = decay};
  }
}

Result<StrategyChoice> strategy_of(const TrainOptions& options, const std::string& torch_tag) {
  if (options.plugin == "none") return resident(options);
  CASTOR_ASSIGN(const Plugin plugin, PluginLoader(torch_tag, plugin_folders()).load(options.plugin));
  std::vector<std::string> known;
  for (const castor_option* const option : option_schema(*plugin.info)) known.emplace_back(option->name);
  CASTOR_ASSIGN(auto values, plugin_options(options, plugin.info->name, known));
  return StrategyChoice(PluginByName{options.plugin, std::move(values), plugin});
}

}  // namespace castor::train
