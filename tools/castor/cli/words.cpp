// SPDX-License-Identifier: Apache-2.0
#include "cli/words.h"

#include <algorithm>
#include <iterator>

namespace castor::cli {
namespace {

struct Word {
  std::string_view option, of_command;
};

constexpr Word kWords[] = {
    {"batch", "--batch"},
    {"betas", "betas"},                            // without an option of its own
    {"const_device_bytes", "const_device_bytes"},  // of --set
    {"data", "--data"},
    {"decay_steps", "--decay-steps"},
    {"device", "--device"},
    {"device_budget", "--device-budget"},
    {"div_factor", "--div-factor"},
    {"eps", "eps"},
    {"final_div_factor", "--final-div-factor"},
    {"gamma", "--gamma"},
    {"groups", "--group"},
    {"host_budget", "--host-budget"},
    {"lr", "--lr"},
    {"lr_schedule", "--lr-schedule"},
    {"max_norm", "--clip"},
    {"max_value", "--clip-value"},
    {"micro_batches", "--accumulate"},
    {"milestones", "--milestones"},
    {"min_lr", "--min-lr"},
    {"momentum", "--momentum"},
    {"nvme", "--nvme"},
    {"optimizer", "--optimizer"},
    {"pct_start", "--pct-start"},
    {"plugin", "--plugin"},
    {"power", "--power"},
    {"precision", "--precision"},
    {"recompute", "--recompute"},
    {"resume_from", "--resume"},
    {"seed", "--seed"},
    {"seq", "--seq"},
    {"trace", "--trace"},
    {"tune", "`castor bench io --tune`"},
    {"warmup_steps", "--warmup-steps"},
    {"weight_decay", "--weight-decay"},
};

}  // namespace

std::string worded(std::string_view sentence) {
  std::string text;
  while (!sentence.empty()) {
    const std::size_t open = std::min(sentence.find('`'), sentence.size());
    const std::size_t close = open < sentence.size() ? sentence.find('`', open + 1) : std::string_view::npos;
    text += sentence.substr(0, open);
    sentence.remove_prefix(open);
    if (close == std::string_view::npos) return text += sentence;
    const std::string_view option = sentence.substr(1, close - open - 1);
    const Word* const word = std::ranges::find(kWords, option, &Word::option);
    text += word != std::end(kWords) ? word->of_command : sentence.substr(0, option.size() + 2);
    sentence.remove_prefix(option.size() + 2);
  }
  return text;
}

}  // namespace castor::cli
