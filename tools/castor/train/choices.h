// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/training/optimizer.h>
#include <castor/training/strategy_choice.h>

#include "train/options/options.h"

namespace castor::train {

/// The optimizer with the values of the options.
Optimizer optimizer_of(const TrainOptions& options);

/// The plugin that the options name, with its options, or the resident run for `none`. `torch_tag` is that of this
/// build's LibTorch. Errors: usage if the plugin has no option for a given one; those of PluginLoader.
Result<StrategyChoice> strategy_of(const TrainOptions& options, const std::string& torch_tag);

}  // namespace castor::train
