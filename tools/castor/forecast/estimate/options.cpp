// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <castor/memory/budget.h>
#include <castor/memory/text.h>

#include "cli/optimizer_option.h"
#include "cli/option_values.h"
#include "forecast/plan/step_output.h"

namespace castor::estimates {
namespace {

namespace po = boost::program_options;
using cli::Values;

/// bf16 reaches 380 (1.5 B parameters) to 530 (7.6 B) on an H200 with shapes of Qwen2.5; fp32 without tensor cores at most
/// 67.
constexpr double kTflops16 = 450, kTflops32 = 50;

struct Row {
  const char* name;
  const char* takes;
  const char* default_value;  ///< null = none
  const char* help;
};

constexpr Row kRows[] = {
    {"model", "NAME", nullptr, "the model"},
    {"device-budget", "SIZE", "139GiB", "bytes the device tier may hold, activations and workspaces with them"},
    {"host-budget", "SIZE", "128GiB", "bytes the host tier may hold"},
    {"nvme", "on|off", "off", "whether there is an NVMe tier"},
    {"nvme-offload-fraction", "X", "0", "share of the optimizer states that is always kept on NVMe"},
    {"stream-optim-frac", "auto|X", "auto",
     "share of the states off the device that the device updates: the plugin's option"},
    {"policy", "auto|cuda|cpu", "auto", "where optimizer states may be kept: the plugin's placement_policy"},
    {"batch", "B", "8", "samples per step"},
    {"seq", "S", "1024", "tokens per sample (text)"},
    {"clip", "X", "0", "global gradient norm to clip to; 0 = no clipping"},
    {"overlap-updates", "on|off", "on", "whether updates on the host run in parallel with training"},
    {"speculative-updates", "on|off", "on",
     "with --clip: whether updates begin before the norm is known, in host memory that is left over"},
    {"split-master", "on|off", "on", "whether a bf16 weight's master is kept as the 16 bits that the weight lacks"},
    {"optimizer", "adamw|adam|sgd|lars|lamb", "adamw", "the optimizer; sgd and lars have one moment"},
    {"moments", "fp32|mixed|bf16", "fp32", "moments: all in fp32, exp_avg alone in bf16, all in bf16"},
    {"precision", "bf16|fp32", "bf16", "weights and activations; masters are fp32"},
    {"tflops", "X", nullptr, "10^12 operations per second that the model's products reach (default: 450; fp32 50)"},
    {"host-update-rate", "SIZE", "126GiB", "bytes per second of host memory while it updates"},
    {"device-update-rate", "SIZE", "4TiB", "bytes per second of device memory while it updates"},
};

constexpr std::array<cli::RateOption, kLinkNames.size()> kRates = {{
    {"51.5GiB", "bytes per second, host to device"},
    {"51.5GiB", "bytes per second, device to host"},
    {"3GiB", "bytes per second, from NVMe"},
    {"1.5GiB", "bytes per second, to NVMe"},
}};

Result<void> read_rate(const Values& values, const std::string& option, double& target) {
  CASTOR_ASSIGN(const auto rate, cli::bytes_of(values, option));
  if (*rate == 0) return cli::wrong(option, "0", "bytes per second above 0");
  target = static_cast<double>(*rate);
  return {};
}

Result<void> read_model(const Values& values, ModelChoice& model) {
  constexpr std::uint64_t kMany = 1 << 24;
  const auto name = cli::text_of(values, "model");
  if (!name)
    return Error{ErrorKind::usage, "--model is missing; give one, for example --model gpt2-1.5b; --help lists them"};
  model.name = *name;
  CASTOR_TRY(cli::read_count<std::uint64_t>(values, "batch", 1, kMany, model.batch));
  CASTOR_TRY(cli::read_count<std::uint64_t>(values, "seq", 1, kMany, model.seq));
  model.recompute = values.count("recompute") != 0;
  return cli::read_choice<DType>(values, "precision", {{"bf16", DType::bf16}, {"fp32", DType::f32}}, model.precision);
}

Result<void> read_optimizer(const Values& values, Request& request) {
  castor_optimizer optimizer = CASTOR_ADAMW;
  CASTOR_TRY(cli::read_optimizer(values, optimizer, request.plugin.moments));
  if (optimizer == CASTOR_ADAM) request.optimizer = Adam{};
  if (optimizer == CASTOR_SGD) request.optimizer = Sgd{};
  if (optimizer == CASTOR_LARS) request.optimizer = Lars{};
  if (optimizer == CASTOR_LAMB) request.optimizer = Lamb{};
  return cli::read_number(values, "clip", /*zero_allowed=*/true, request.max_norm);
}

Result<double> read_share(const Values& values, const std::string& option, const char* accepted) {
  double share = 0;
  if (!cli::read_number(values, option, /*zero_allowed=*/true, share).ok() || share > 1)
    return cli::wrong(option, cli::text_of(values, option).value_or(""), accepted);
  return share;
}

/// An option of the plugin that is `on` unless it is said to be off.
Result<void> read_switch(const Values& values, const std::string& option, const char* of_plugin, const char* off,
                         Gemini& plugin) {
  bool on = true;
  CASTOR_TRY(cli::read_choice<bool>(values, option, {{"on", true}, {"off", false}}, on));
  if (!on) plugin.set[of_plugin] = off;
  return {};
}

Result<void> read_tiers(const Values& values, Gemini& plugin) {
  CASTOR_ASSIGN(const auto device_bytes, cli::bytes_of(values, "device-budget"));
  CASTOR_ASSIGN(const auto host_bytes, cli::bytes_of(values, "host-budget"));
  CASTOR_ASSIGN(const auto nvme, cli::nvme_of(values));
  plugin.device_budget = *device_bytes, plugin.host_budget = *host_bytes;
  if (*nvme) plugin.nvme = {"nvme"};  // which folder it is makes no difference
  CASTOR_ASSIGN(plugin.nvme_offload_fraction, read_share(values, "nvme-offload-fraction", "0 to 1"));
  if (*plugin.nvme_offload_fraction > 0 && !*nvme)
    return Error{ErrorKind::usage, "--nvme-offload-fraction needs --nvme on"};
  return cli::read_choice<std::string>(values, "policy", {{"auto", "auto"}, {"cuda", "cuda"}, {"cpu", "cpu"}},
                                       plugin.placement_policy);
}

Result<void> read_plugin(const Values& values, Gemini& plugin) {
  CASTOR_TRY(read_tiers(values, plugin));
  if (cli::text_of(values, "stream-optim-frac") != "auto") {
    CASTOR_ASSIGN(const double streamed, read_share(values, "stream-optim-frac", "auto, or 0 to 1"));
    plugin.set["stream_optim_frac"] = shortest(streamed);
  }
  CASTOR_TRY(read_switch(values, "overlap-updates", "overlap_updates", "false", plugin));
  CASTOR_TRY(read_switch(values, "speculative-updates", "speculative_updates", "off", plugin));
  CASTOR_TRY(read_switch(values, "split-master", "split_master", "false", plugin));
  plugin.offload_activations = values.count("offload-activations") != 0;
  if (plugin.offload_activations && values.count("recompute") == 0)
    return Error{ErrorKind::usage, "--offload-activations needs --recompute: it moves the inputs of recomputed blocks"};
  return {};
}

Result<void> read_rates(const Values& values, DType precision, ForecastMachine& machine) {
  double tflops = precision == DType::f32 ? kTflops32 : kTflops16;
  if (values.count("tflops") != 0) CASTOR_TRY(cli::read_number(values, "tflops", /*zero_allowed=*/false, tflops));
  machine.flops_per_s = tflops * 1e12;
  CASTOR_TRY(read_rate(values, "host-update-rate", machine.host_update_bytes_per_s));
  CASTOR_TRY(read_rate(values, "device-update-rate", machine.device_update_bytes_per_s));
  machine.links.nvme_share = kUsualLinkCosts.nvme_share;
  return cli::set_rates(values, machine.links);
}

}  // namespace

cli::CommandSyntax estimate_syntax() {
  cli::CommandSyntax syntax(
      "castor estimate --model NAME [options]",
      "Computes whether a model trains within these budgets, how much of each tier it takes and how long a\n"
      "step lasts, before anything is allocated; docs/planning.md has the equations. The defaults are those of\n"
      "one H200 and its host. Models, or spelled out as gpt:layers=48,hidden=1600,heads=25,vocab=50304,tied=0:\n" +
          model_names_in_lines());
  auto add = syntax.options.add_options();
  for (const Row& row : kRows) {
    auto* value = po::value<std::string>()->value_name(row.takes);
    if (row.default_value != nullptr) value->default_value(row.default_value);
    add(row.name, value, row.help);
  }
  add("recompute", "run each block's forward again in backward instead of keeping its activations");
  add("offload-activations", "with --recompute: the blocks' inputs may leave the device until backward");
  cli::add_rate_options(syntax, kRates);
  return syntax;
}

Result<Request> read_request(const Values& values) {
  Request request;
  CASTOR_TRY(read_model(values, request.model));
  CASTOR_TRY(read_optimizer(values, request));
  CASTOR_TRY(read_plugin(values, request.plugin));
  CASTOR_TRY(read_rates(values, request.model.precision, request.machine));
  request.machine.device_bytes = Budget::kUnlimited / 2;  // the budget is the limit
  return request;
}

}  // namespace castor::estimates
