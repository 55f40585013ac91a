// SPDX-License-Identifier: Apache-2.0
#include "optimizers.h"

#include <utility>
#include <vector>

#include "option_values.h"

namespace castor::cli {
namespace {

const std::vector<std::pair<std::string, castor_optimizer>> kOptimizers = {
    {"adamw", CASTOR_ADAMW}, {"adam", CASTOR_ADAM}, {"sgd", CASTOR_SGD}, {"lars", CASTOR_LARS}, {"lamb", CASTOR_LAMB}};

}  // namespace

std::string name(castor_optimizer optimizer) {
  for (const auto& [word, meaning] : kOptimizers)
    if (meaning == optimizer) return word;
  throw ContractViolation("optimizer " + std::to_string(static_cast<int>(optimizer)));
}

std::string optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [word, meaning] : kOptimizers) names.push_back(word);
  return join(names, "|");
}

bool has_momentum(castor_optimizer optimizer) { return optimizer == CASTOR_SGD || optimizer == CASTOR_LARS; }

bool has_trust_ratios(castor_optimizer optimizer) { return optimizer == CASTOR_LARS || optimizer == CASTOR_LAMB; }

bool has_trust_coefficient(castor_optimizer optimizer) { return optimizer == CASTOR_LARS; }

bool keeps_exp_avg_sq(castor_optimizer optimizer) { return !has_momentum(optimizer); }

std::string states_of(castor_optimizer optimizer) { return keeps_exp_avg_sq(optimizer) ? "adam" : name(optimizer); }

Result<void> read_optimizer(const Values& values, castor_optimizer& optimizer, MomentFormat& moments) {
  CASTOR_TRY(read_choice<castor_optimizer>(values, "optimizer", kOptimizers, optimizer));
  CASTOR_TRY(read_choice<MomentFormat>(
      values, "moments", {{"fp32", MomentFormat::f32}, {"mixed", MomentFormat::mixed}, {"bf16", MomentFormat::bf16}},
      moments));
  if (keeps_exp_avg_sq(optimizer) || moments != MomentFormat::mixed) return {};
  return Error{ErrorKind::usage,
               "--moments mixed needs two moments and --optimizer " + name(optimizer) + " has one; give fp32 or bf16"};
}

}  // namespace castor::cli
