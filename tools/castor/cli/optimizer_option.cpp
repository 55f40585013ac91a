// SPDX-License-Identifier: Apache-2.0
#include "optimizer_option.h"

#include <utility>
#include <vector>

#include <castor/training/optimizer_families.h>

#include "option_values.h"

namespace castor::cli {

std::string optimizer_names() {
  std::vector<std::string> names;
  for (const castor_optimizer optimizer : kOptimizers) names.push_back(name(optimizer));
  return join(names, "|");
}

Result<void> read_optimizer(const Values& values, castor_optimizer& optimizer, MomentFormat& moments) {
  std::vector<std::pair<std::string, castor_optimizer>> choices;
  for (const castor_optimizer known : kOptimizers) choices.emplace_back(name(known), known);
  CASTOR_TRY(read_choice<castor_optimizer>(values, "optimizer", choices, optimizer));
  CASTOR_TRY(read_choice<MomentFormat>(
      values, "moments", {{"fp32", MomentFormat::f32}, {"mixed", MomentFormat::mixed}, {"bf16", MomentFormat::bf16}},
      moments));
  if (keeps_exp_avg_sq(optimizer) || moments != MomentFormat::mixed) return {};
  return Error{ErrorKind::usage,
               "--moments mixed needs two moments and --optimizer " + name(optimizer) + " has one; give fp32 or bf16"};
}

}  // namespace castor::cli
