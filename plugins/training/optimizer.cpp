// SPDX-License-Identifier: Apache-2.0
#include <castor/training/optimizer.h>

namespace castor {
namespace {

template <typename Rule>
castor_step_args args_of(castor_optimizer optimizer, const Rule& rule) {
  castor_step_args args = {};
  args.struct_size = sizeof args;
  args.optimizer = optimizer;
  args.lr = rule.lr;
  args.weight_decay = rule.weight_decay;
  args.loss_scale = 1;
  return args;
}

template <typename Rule>
castor_step_args adam_args(castor_optimizer optimizer, const Rule& rule) {
  castor_step_args args = args_of(optimizer, rule);
  args.beta1 = rule.betas.first, args.beta2 = rule.betas.second;
  args.eps = rule.eps;
  return args;
}

template <typename Rule>
castor_step_args sgd_args(castor_optimizer optimizer, const Rule& rule) {
  castor_step_args args = args_of(optimizer, rule);
  args.momentum = rule.momentum;
  args.nesterov = rule.nesterov ? 1 : 0;
  return args;
}

}  // namespace

AdamW::operator castor_step_args() const { return adam_args(CASTOR_ADAMW, *this); }
Adam::operator castor_step_args() const { return adam_args(CASTOR_ADAM, *this); }
Lamb::operator castor_step_args() const { return adam_args(CASTOR_LAMB, *this); }
Sgd::operator castor_step_args() const { return sgd_args(CASTOR_SGD, *this); }

Lars::operator castor_step_args() const {
  castor_step_args args = sgd_args(CASTOR_LARS, *this);
  args.trust_coefficient = trust_coefficient;
  args.eps = eps;
  return args;
}

castor_step_args step_args(const Optimizer& optimizer) {
  return std::visit([](const auto& rule) -> castor_step_args { return rule; }, optimizer);
}

}  // namespace castor
