// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include <castor/memory/bytes.h>
#include <castor/memory/text.h>
#include <castor/training/optimizer_families.h>

#include "cli/optimizer_option.h"
#include "cli/option_values.h"
#include "train/options/step_options.h"

namespace castor::train {
namespace {

namespace po = boost::program_options;
using cli::read_choice;
using cli::read_count;
using cli::read_number;
using cli::read_set;
using cli::Values;
using cli::wrong;

/// One option of the table below. `takes` is empty for a flag; `default_value` is empty if there is none.
struct Row {
  const char* name;
  std::string takes;
  std::string default_value;
  const char* help;
};

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::string schedule_names() {
  std::vector<std::string> names;
  for (const LrScheduleKind kind : kLrScheduleKinds) names.emplace_back(name(kind));
  return cli::join(names, "|");
}

std::vector<Row> rows() {
  const TrainOptions defaults;
  const LrScheduleOptions& schedule = defaults.lr_schedule;
  const GradScalerOptions& scaler = defaults.scaler;
  const auto count = [](auto n) { return std::to_string(n); };
  return {
      {"model", "NAME", "", "the model"},
      {"data", "FILE", "", "text to train on, each byte a token (default: random input)"},
      {"plugin", "NAME|PATH", defaults.plugin,
       "plugin that places and moves the memory; none = everything stays on the device, as the reference"},
      {"device", "cpu|cuda", "cpu", "where the model computes"},
      {"device-budget", "SIZE", "", "bytes the device tier may hold (default: the plugin's)"},
      {"host-budget", "SIZE", "", "bytes the host tier may hold (default: the plugin's)"},
      {"nvme", "DIR[,DIR]", "",
       "folders that the NVMe tier may use (default: no NVMe tier); here and below, \\, is a comma within a name"},
      {"durability", "scratch|commit", "scratch",
       "scratch: the files in the folders of --nvme are deleted when the run ends; commit: these folders are the "
       "checkpoint, in place of --checkpoint, and states that are there already are not copied"},
      {"steps", "N", count(defaults.steps), "optimizer steps"},
      {"batch", "B", count(defaults.batch), "samples per micro-batch"},
      {"seq", "S", count(defaults.seq), "tokens per sample (text)"},
      {"accumulate", "N", count(defaults.accumulate), "micro-batches per step, averaged"},
      {"seed", "K", count(defaults.seed), "decides initial values and batches"},
      {"precision", "bf16|fp16|fp32", name(defaults.precision),
       "weights and activations; masters are fp32; fp16 scales its loss"},
      {"optimizer", cli::optimizer_names(), castor::name(defaults.optimizer),
       "adam, sgd and lars add the decay to the gradient, lamb to the direction that it scales; sgd and lars keep one "
       "moment"},
      {"momentum", "X", digits(defaults.momentum.momentum),
       "sgd, lars: share of the last momentum that is kept, from 0 to below 1"},
      {"nesterov", "", "", "sgd, lars: Nesterov's momentum"},
      {"trust-coefficient", "X", digits(defaults.momentum.trust_coefficient),
       "lars: each tensor's gradient is scaled to this share of its weights' norm"},
      {"moments", "fp32|mixed|bf16", name(defaults.moments),
       "moments: all in fp32; Adam's exp_avg in bf16; all in bf16, exp_avg_sq rounded at random from --seed"},
      {"lr", "X", digits(schedule.lr), "learning rate, the largest one where a schedule changes it"},
      {"lr-schedule", schedule_names(), name(schedule.kind),
       "learning rate of each step, by the step's number; fp16 steps that are skipped count"},
      {"warmup-steps", "N", count(schedule.warmup_steps), "steps in which the rate rises to --lr; not for onecycle"},
      {"decay-steps", "N", "",
       "steps, warm-up included, until linear, cosine and polynomial are at --min-lr and onecycle at its end "
       "(default: --steps)"},
      {"min-lr", "X", digits(schedule.min_lr), "rate at the end of linear, cosine and polynomial"},
      {"milestones", "N[,N]", "", "steps at which multistep multiplies the rate by --gamma once more"},
      {"gamma", "X", "", "factor per milestone (multistep) or per step (exponential)"},
      {"power", "X", digits(schedule.power), "exponent of polynomial"},
      {"pct-start", "X", digits(schedule.pct_start), "share of onecycle in which the rate rises"},
      {"div-factor", "X", digits(schedule.div_factor), "onecycle begins at --lr divided by this"},
      {"final-div-factor", "X", digits(schedule.final_div_factor), "onecycle ends at its first rate divided by this"},
      {"initial-scale", "X", digits(scaler.initial_scale), "fp16: first loss scale"},
      {"growth-interval", "N", count(scaler.growth_interval), "fp16: good steps in a row until the scale grows"},
      {"growth-factor", "X", digits(scaler.growth_factor), "fp16: factor by which the scale grows"},
      {"hysteresis", "N", count(scaler.hysteresis),
       "fp16: the scale backs off at the Nth overflow since it last grew, and at each one after"},
      {"backoff-factor", "X", digits(scaler.backoff_factor), "fp16: factor by which the scale shrinks"},
      {"min-scale", "X", digits(scaler.min_scale), "fp16: least loss scale"},
      {"max-scale", "X", digits(scaler.max_scale), "fp16: largest loss scale"},
      {"weight-decay", "X", digits(defaults.weight_decay), "weight decay"},
      {"clip", "X", digits(defaults.clip), "global gradient norm to clip to; 0 = no clipping"},
      {"clip-value", "X", digits(defaults.clip_value),
       "clamp each element of the gradients to [-X, X]; 0 = no clipping; not with --clip"},
      {"on-nan", "stop|continue", "stop",
       "what a loss or norm that is inf or nan does; continue: it is said once, and states that hold such values are "
       "not saved"},
      {"recompute", "", "", "run each block's forward again in backward instead of keeping its activations"},
      {"deterministic", "", "", "only kernels that repeat their bits from run to run (slower on a GPU)"},
      {"threads", "N", count(defaults.threads),
       "threads that compute and that update; 0 = torch's and the plugin's own choice, at most the CPU quota"},
      {"checkpoint", "DIR[,DIR]", "", "folders to save the run's state in after the last step, and when it is stopped"},
      {"checkpoint-every", "N", "", "also save after every N steps"},
      {"resume", "DIR[,DIR]", "",
       "continue from the checkpoint in DIR (or the folders of --nvme), up to --steps in all; budgets and plugin may "
       "differ"},
      {"trace", "F", "", "file to record memory, links and waits in, for `castor memprof F`"},
  };
}

po::typed_value<std::string>* value_of(const Row& row) {
  auto* value = po::value<std::string>()->value_name(row.takes);
  return row.default_value.empty() ? value : value->default_value(row.default_value);
}

Result<void> read_numbers(const Values& values, TrainOptions& options) {
  constexpr std::int64_t kMany = 1'000'000'000;
  CASTOR_TRY(read_count<std::int64_t>(values, "steps", 1, kMany, options.steps));
  CASTOR_TRY(read_count<std::int64_t>(values, "batch", 1, kMany, options.batch));
  CASTOR_TRY(read_count<std::int64_t>(values, "seq", 1, kMany, options.seq));
  CASTOR_TRY(read_count<std::int64_t>(values, "accumulate", 1, kMany, options.accumulate));
  CASTOR_TRY(read_count<std::uint64_t>(values, "seed", 0, UINT64_MAX, options.seed));
  CASTOR_TRY(read_count<int>(values, "threads", 0, 4096, options.threads));
  CASTOR_TRY(read_number(values, "clip", true, options.clip));
  CASTOR_TRY(read_number(values, "clip-value", true, options.clip_value));
  if (options.clip > 0 && options.clip_value > 0)
    return Error{ErrorKind::usage, "--clip and --clip-value clip the same gradients in two ways; give one of them"};
  return read_number(values, "weight-decay", true, options.weight_decay);
}

Result<void> read_choices(const Values& values, TrainOptions& options) {
  CASTOR_TRY(read_choice<DeviceKind>(values, "device", {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}},
                                     options.device));
  CASTOR_TRY(read_choice<DType>(
      values, "precision", {{"bf16", DType::bf16}, {"fp16", DType::f16}, {"fp32", DType::f32}}, options.precision));
  CASTOR_TRY(read_choice<bool>(values, "on-nan", {{"stop", true}, {"continue", false}}, options.stops_on_nan));
  CASTOR_TRY(cli::read_optimizer(values, options.optimizer, options.moments));
  if (options.clip_value == 0 || !has_trust_ratios(options.optimizer)) return {};
  return Error{ErrorKind::usage, "--clip-value cannot be combined with --optimizer " + name(options.optimizer) +
                                     ", whose trust ratios need the unclipped gradients; use --clip"};
}

Result<std::vector<std::filesystem::path>> read_folders(const Values& values, const std::string& option) {
  CASTOR_ASSIGN(const auto folders, cli::folders_of(values, option));
  return std::vector<std::filesystem::path>(folders.begin(), folders.end());
}

Result<void> read_tiers(const Values& values, TrainOptions& options) {
  CASTOR_ASSIGN(options.device_budget, cli::bytes_of(values, "device-budget"));
  CASTOR_ASSIGN(options.host_budget, cli::bytes_of(values, "host-budget"));
  CASTOR_ASSIGN(options.nvme, read_folders(values, "nvme"));
  return {};
}

Result<void> read_durability(const Values& values, TrainOptions& options) {
  CASTOR_TRY(read_choice<bool>(values, "durability", {{"scratch", false}, {"commit", true}}, options.commit_nvme));
  if (!options.commit_nvme) return {};
  if (options.nvme.empty())
    return Error{ErrorKind::usage, "--durability commit keeps the run in the folders of --nvme; name one"};
  if (!options.checkpoint.empty())
    return Error{ErrorKind::usage,
                 "--durability commit saves the run in the folders of --nvme; leave --checkpoint out"};
  return {};
}

/// Call after the folders of --nvme are read.
Result<void> read_checkpoints(const Values& values, TrainOptions& options) {
  CASTOR_ASSIGN(options.checkpoint, read_folders(values, "checkpoint"));
  CASTOR_ASSIGN(options.resume, read_folders(values, "resume"));
  CASTOR_TRY(read_durability(values, options));
  if (values.count("checkpoint-every") == 0) return {};
  if (options.saved_in().empty())
    return Error{ErrorKind::usage, "--checkpoint-every needs --checkpoint DIR or --durability commit"};
  return read_count<std::int64_t>(values, "checkpoint-every", 1, 1'000'000'000, options.checkpoint_every);
}

/// Adds `option` of the plugin, set by `flag`, unless the plugin has no such option or it is set already.
Result<void> add_flag(const std::string& flag, const std::string& option, const std::string& text,
                      const std::string& plugin, const std::vector<std::string>& known,
                      std::map<std::string, std::string>& target) {
  if (std::find(known.begin(), known.end(), option) == known.end()) {
    return Error{ErrorKind::usage,
                 "--" + flag + " has no effect here: plugin '" + plugin + "' has no option '" + option + "'"};
  }
  if (target.emplace(option, text).second) return {};
  return Error{ErrorKind::usage, "--" + flag + " and --set " + option + "= set the same option; give one of them"};
}

}  // namespace

cli::CommandSyntax train_syntax() {
  cli::CommandSyntax syntax(
      "castor train --model NAME [--data FILE] [options]",
      "Trains a model and reports its speed, its memory, and how near it is to the speed that the links allow.\n"
      "Models: gpt2-124m|355m|774m|1.5b, llama3-8b, vit-b|l|h, mlp and others, or spelled out, for example\n"
      "gpt:layers=4,hidden=352,heads=8,vocab=256,tied=1 or "
      "llama:layers=4,hidden=256,heads=8,kv_heads=4,ffn=688,vocab=256.\n"
      "Sizes read as 512MiB, 8GiB or 0.");
  auto add = syntax.options.add_options();
  for (const Row& row : rows()) row.takes.empty() ? add(row.name, row.help) : add(row.name, value_of(row), row.help);
  add("set", po::value<std::vector<std::string>>()->value_name("name=value"),
      "an option of the plugin, see `castor plugins list -v`; may be repeated");
  add("group", po::value<std::vector<std::string>>()->value_name("SELECTOR:name=value[,name=value]"),
      "lr, betas=X/Y, eps, weight_decay, momentum and trust_coefficient, as far as the optimizer has them, of the "
      "parameters that "
      "SELECTOR names: a glob over their names, as *.bias, "
      "or "
      "`vectors` for those of fewer than two dimensions; lr is the group's largest rate, which the schedule changes as "
      "it "
      "does --lr; may be repeated, the first that names a parameter counts");
  return syntax;
}

std::vector<std::filesystem::path> TrainOptions::saved_in() const { return commit_nvme ? nvme : checkpoint; }

Result<TrainOptions> read_options(const Values& values) {
  TrainOptions options;
  const auto model = cli::text_of(values, "model");
  if (!model || model->empty())
    return Error{ErrorKind::usage, "--model is missing; give one, for example --model gpt2-124m; --help lists them"};
  options.model = *model;
  options.data = cli::text_of(values, "data").value_or("");
  if (values.count("data") != 0 && options.data.empty()) return Error{ErrorKind::usage, "--data names no file"};
  options.plugin = values["plugin"].as<std::string>();
  options.trace = cli::text_of(values, "trace").value_or("");
  options.recompute = values.count("recompute") != 0;
  options.deterministic = values.count("deterministic") != 0;
  CASTOR_TRY(read_numbers(values, options));
  CASTOR_TRY(read_choices(values, options));
  CASTOR_TRY(read_momentum(values, options.optimizer, options.momentum));
  CASTOR_TRY(read_schedule(values, options.steps, options.lr_schedule));
  CASTOR_TRY(read_scaler(values, options.precision, options.scaler));
  CASTOR_TRY(read_tiers(values, options));
  CASTOR_TRY(read_checkpoints(values, options));
  CASTOR_TRY(read_set(values, options.set));
  CASTOR_TRY(read_groups(values, options.optimizer, options.groups));
  return options;
}

Result<std::map<std::string, std::string>> plugin_options(const TrainOptions& options, const std::string& plugin,
                                                          const std::vector<std::string>& known) {
  std::map<std::string, std::string> result = options.set;
  const auto knows = [&known](std::string_view option) {
    return std::find(known.begin(), known.end(), option) != known.end();
  };
  if (options.device_budget)
    CASTOR_TRY(
        add_flag("device-budget", "device_budget", std::to_string(*options.device_budget), plugin, known, result));
  if (options.host_budget)
    CASTOR_TRY(add_flag("host-budget", "host_budget", std::to_string(*options.host_budget), plugin, known, result));
  if (options.threads > 0 && knows("update_threads"))
    result.emplace("update_threads", std::to_string(options.threads));  // compute and updates share one thread budget
  if (options.moments != MomentFormat::f32)
    CASTOR_TRY(add_flag("moments", "moments", name(options.moments), plugin, known, result));
  if (knows("optimizer") && result.count("optimizer") != 0)
    return Error{ErrorKind::usage, "--optimizer and --set optimizer= set the same option; give one of them"};
  if (!options.nvme.empty()) CASTOR_TRY(add_flag("nvme", "nvme", folders_text(options.nvme), plugin, known, result));
  if (options.commit_nvme) CASTOR_TRY(add_flag("durability", "durability", "commit", plugin, known, result));
  if (!options.commit_nvme && result.count("durability") != 0)
    return Error{ErrorKind::usage, "--set durability=: use --durability, which also saves the run"};
  return result;
}

}  // namespace castor::train
