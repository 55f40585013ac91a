// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <variant>

#include <castor/plugins/abi.h>

namespace castor {

// The rules of a step (docs/training.md), with the defaults of torch.optim where it has them. Each converts to the
// arguments of a step of all parameters: no groups, no clipping, a loss that was not scaled. check_step_args refuses
// values out of range by name.

struct AdamW {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  operator castor_step_args() const;
};

struct Adam {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  operator castor_step_args() const;
};

struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  operator castor_step_args() const;
};

struct Lars {
  double lr = 1e-3;
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
  double trust_coefficient = 0.001;
  double eps = 1e-8;
  operator castor_step_args() const;
};

struct Lamb {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  operator castor_step_args() const;
};

using Optimizer = std::variant<AdamW, Adam, Sgd, Lars, Lamb>;

castor_step_args step_args(const Optimizer& optimizer);

}  // namespace castor
