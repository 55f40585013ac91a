// SPDX-License-Identifier: Apache-2.0
#include <castor/gemini/gemini_options.h>

#include <cstdlib>
#include <map>
#include <vector>

#include <castor/memory/bytes.h>
#include <castor/memory/text.h>
#include <castor/plugins/option_values.h>

namespace castor {
namespace {

constexpr double kMaxBytes = 0x1p63;

/// Bytes of an option; an empty text means no limit.
Result<std::uint64_t> limit(const std::string& text) {
  if (text.empty()) return Budget::kUnlimited;
  return parse_bytes(text);
}

/// Bytes of const_device_bytes; an empty text means half of the device budget.
Result<std::uint64_t> constant(const std::string& text, std::uint64_t device_budget_bytes) {
  if (text.empty()) return device_budget_bytes == Budget::kUnlimited ? Budget::kUnlimited : device_budget_bytes / 2;
  return parse_bytes(text);
}

/// Refuses options that the placement policy does not use. Errors: usage.
Result<void> refuse_dead(const std::map<std::string, std::string>& text) {
  const auto number = [&text](const char* option) { return std::strtod(text.at(option).c_str(), nullptr); };
  struct Rule {
    const char* option;
    bool set;
    const char* policy;
  };
  const Rule rules[] = {{"offload_param_frac", number("offload_param_frac") != 0, "static"},
                        {"offload_optim_frac", number("offload_optim_frac") != 0, "static"},
                        {"const_device_bytes", !text.at("const_device_bytes").empty(), "const"}};
  if (number("shard_param_frac") != 1)
    return Error{ErrorKind::usage, "shard_param_frac divides parameters among ranks, and there is one; leave it out",
                 "shard_param_frac"};
  const std::string& policy = text.at("placement_policy");
  for (const Rule& rule : rules)
    if (rule.set && policy != rule.policy)
      return Error{ErrorKind::usage,
                   std::string(rule.option) + " needs placement_policy=" + rule.policy +
                       "; with placement_policy=" + policy + " it would change nothing",
                   rule.option};
  return {};
}

Result<Durability> parse_durability(const std::string& text, const std::vector<std::string>& folders) {
  if (text == "scratch") return Durability::scratch;
  if (folders.empty())
    return Error{ErrorKind::usage, "durability=commit keeps the run in the folders of nvme; name one with `nvme`",
                 "nvme"};
  return Durability::commit;
}

constexpr castor_option option(const char* name, std::uint32_t type, const char* default_value, double min, double max,
                               const char* choices, const char* help) {
  return {sizeof(castor_option), type, name, default_value, min, max, choices, help};
}

constexpr castor_option kOptions[] = {
    option(
        "device_budget", CASTOR_OPTION_BYTES, "", 0, kMaxBytes, nullptr,
        "bytes the device may hold, activations included on a GPU (default: the free memory of the GPU; elsewhere no "
        "limit)"),
    option("host_budget", CASTOR_OPTION_BYTES, "", 0, kMaxBytes, nullptr,
           "bytes of host memory that chunks may hold (default: no limit)"),
    option("nvme_budget", CASTOR_OPTION_BYTES, "", 0, kMaxBytes, nullptr,
           "bytes that the folders of nvme may hold (default: no limit)"),
    option("nvme", CASTOR_OPTION_STRING, "", 0, 0, nullptr,
           "folders of the NVMe tier, comma-separated; none = no NVMe tier"),
    option("durability", CASTOR_OPTION_ENUM, "scratch", 0, 0, "scratch|commit",
           "scratch: the files in the folders of nvme are deleted when the run ends; commit: these folders are the "
           "checkpoint, and states that are there already are not copied; they take twice the room"),
    option("nvme_offload_fraction", CASTOR_OPTION_FLOAT, "0", 0, 1, nullptr,
           "share of the optimizer states that is always kept in the folders of nvme"),
    option(
        "placement_policy", CASTOR_OPTION_ENUM, "auto", 0, 0, "auto|static|cuda|cpu|const",
        "auto: fill device, host and NVMe in this order as the budgets allow; static: keep all on the device but the "
        "shares "
        "offload_param_frac and offload_optim_frac; cuda: keep all there; cpu: no optimizer states; const: at most "
        "const_device_bytes"),
    option("offload_param_frac", CASTOR_OPTION_FLOAT, "0", 0, 1, nullptr,
           "with placement_policy=static: share of the parameters that are on the device only while they are used"),
    option("offload_optim_frac", CASTOR_OPTION_FLOAT, "0", 0, 1, nullptr,
           "with placement_policy=static: share of the optimizer states that are kept and updated off the device"),
    option("shard_param_frac", CASTOR_OPTION_FLOAT, "1", 0, 1, nullptr,
           "with placement_policy=static: share of the parameters that are divided among the ranks; no effect with one "
           "rank"),
    option("const_device_bytes", CASTOR_OPTION_BYTES, "", 0, kMaxBytes, nullptr,
           "with placement_policy=const: bytes of the device that chunks may take, however much activations take "
           "(default: "
           "half of device_budget)"),
    option("accumulate_gradients", CASTOR_OPTION_BOOL, "false", 0, 0, nullptr,
           "leave room for the fp32 sums of gradients from several micro-batches per step: 4 instead of 2 bytes a "
           "parameter "
           "in 16 bits"),
    option("offload_activations", CASTOR_OPTION_BOOL, "false", 0, 0, nullptr,
           "keep the inputs of recomputed blocks in chunks, which may be evicted from the device until backward: for "
           "device "
           "budgets that would be too small otherwise"),
    option("overlap_updates", CASTOR_OPTION_BOOL, "true", 0, 0, nullptr,
           "run updates on the host in parallel with training: the next forward pass begins at once, and each unit "
           "waits for "
           "the updates of its own parameters"),
    option("speculative_updates", CASTOR_OPTION_ENUM, "auto", 0, 0, "auto|on|off",
           "with clipping by the norm, or a loss scale: update on the host as soon as gradients arrive, assuming that "
           "nothing "
           "will be clipped or skipped, and undo updates where that was wrong; the old states take host memory that is "
           "left "
           "over; auto: on a GPU"),
    option("stream_optim_frac", CASTOR_OPTION_FLOAT, "-1", -1, 1, nullptr,
           "share of the optimizer states off the device that are copied to it for each update, so that host and bus "
           "work in "
           "parallel; below 0: on a GPU the share that measured step times show to be fastest, elsewhere 0"),
    option("update_threads", CASTOR_OPTION_INT, "0", 0, 4096, nullptr,
           "threads that update optimizer states on the host; 0 = as many as the process has CPUs, or its CPU "
           "quota allows"),
    option("split_master", CASTOR_OPTION_BOOL, "true", 0, 0, nullptr,
           "keep the fp32 master of a bf16 weight as the 16 bits that the weight lacks: 10 instead of 12 bytes of "
           "states a "
           "parameter, with the same results"),
    option("optimizer", CASTOR_OPTION_ENUM, "adam", 0, 0, "adam|sgd",
           "moments that are kept: adam: the two of adam, adamw and lamb; sgd: the one of sgd and lars, 4 bytes a "
           "parameter "
           "less"),
    option("moments", CASTOR_OPTION_ENUM, "fp32", 0, 0, "fp32|mixed|bf16",
           "formats of Adam's moments: fp32: both in fp32; mixed: exp_avg in bf16; bf16: both in bf16, exp_avg_sq "
           "rounded at "
           "random. The results of a training differ"),
    option("rounding_seed", CASTOR_OPTION_INT, "0", 0, 0x1p53, nullptr,
           "with moments=bf16: seed of the random roundings"),
    option("io_timeout", CASTOR_OPTION_FLOAT, "0", 0, 1e9, nullptr,
           "seconds without an answer of a drive or the device after which the run ends with an error; 0 = no limit"),
    option(
        "chunk_bytes", CASTOR_OPTION_BYTES, "0", 0, kMaxBytes, nullptr,
        "size of a full chunk of parameters; 0 = a size that suits the model's blocks, from 512 KiB to 32 MiB, up to a "
        "16th of the device budget or a 64th of the host budget"),
};
std::vector<const castor_option*> pointers_to(std::span<const castor_option> options) {
  std::vector<const castor_option*> pointers;
  for (const castor_option& one : options) pointers.push_back(&one);
  return pointers;
}

}  // namespace

std::span<const castor_option* const> gemini_schema() {
  static const auto pointers = pointers_to(kOptions);
  return pointers;
}

Result<EngineOptions> read_gemini_options(std::span<const castor_option_value* const> values) {
  std::map<std::string, std::string> text;
  for (const castor_option_value* const value : values) text[value->name] = value->value;
  EngineOptions options;
  CASTOR_ASSIGN(options.device_budget_bytes, limit(text["device_budget"]));
  CASTOR_ASSIGN(options.host_budget_bytes, limit(text["host_budget"]));
  CASTOR_ASSIGN(options.nvme_budget_bytes, limit(text["nvme_budget"]));
  options.nvme_folders = split_list(text["nvme"]);
  std::erase(options.nvme_folders, std::string());
  CASTOR_ASSIGN(options.durability, parse_durability(text["durability"], options.nvme_folders));
  options.nvme_offload_fraction = std::strtod(text["nvme_offload_fraction"].c_str(), nullptr);
  CASTOR_ASSIGN(options.placement_policy, parse_placement_policy(text["placement_policy"]));
  options.offload_param_frac = std::strtod(text["offload_param_frac"].c_str(), nullptr);
  options.offload_optim_frac = std::strtod(text["offload_optim_frac"].c_str(), nullptr);
  if (const double share = std::strtod(text["stream_optim_frac"].c_str(), nullptr); share >= 0)
    options.stream_optim_frac = share;
  CASTOR_ASSIGN(options.const_device_bytes, constant(text["const_device_bytes"], options.device_budget_bytes));
  options.accumulate_gradients = text["accumulate_gradients"] == "true";
  options.offload_activations = text["offload_activations"] == "true";
  options.overlap_updates = text["overlap_updates"] == "true";
  if (const std::string& when = text["speculative_updates"]; when != "auto") options.speculative_updates = when == "on";
  options.update_threads = static_cast<unsigned>(std::strtoul(text["update_threads"].c_str(), nullptr, 10));
  options.format.split_master = text["split_master"] == "true";
  CASTOR_ASSIGN(options.format.moments, parse_moment_format(text["moments"]));
  options.format.keeps_exp_avg_sq = text["optimizer"] == "adam";
  options.format.rounding_seed = std::strtoull(text["rounding_seed"].c_str(), nullptr, 10);
  CASTOR_ASSIGN(options.chunk_bytes, parse_bytes(text["chunk_bytes"]));
  const std::chrono::duration<double> io_timeout(std::strtod(text["io_timeout"].c_str(), nullptr));
  options.io_timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(io_timeout);
  CASTOR_TRY(refuse_dead(text));
  if (!options.format.keeps_exp_avg_sq && options.format.moments == MomentFormat::mixed)
    return Error{ErrorKind::usage,
                 "moments=mixed needs two moments and optimizer=sgd has one: set moments=fp32 or bf16"};
  return options;
}

Result<EngineOptions> engine_options(const PluginOptions& options) {
  CASTOR_ASSIGN(const PluginOptions complete, complete_options("gemini", gemini_schema(), options));
  return read_gemini_options(OptionValues(complete).view());
}

}  // namespace castor
