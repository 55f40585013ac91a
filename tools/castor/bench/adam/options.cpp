// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/options.h"

#include <algorithm>

#include <castor/memory/bytes.h>

#include "bench/common/run_length.h"
#include "cli/option_values.h"

namespace castor::bench {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;
constexpr unsigned kMostThreads = 4096;

/// Adds `count` unless it is there already; keeps the order.
void add_distinct(std::vector<unsigned>& counts, unsigned count) {
  if (std::find(counts.begin(), counts.end(), count) == counts.end()) counts.push_back(count);
}

Result<std::vector<unsigned>> read_threads(const cli::Values& values, unsigned n_cores) {
  std::vector<unsigned> counts;
  const auto text = cli::text_of(values, "threads");
  if (!text) {
    for (const unsigned count : {1u, 2u, n_cores})
      if (count <= n_cores) add_distinct(counts, count);
    return counts;
  }
  for (const std::string& part : cli::split(*text, ',')) {
    const auto count = cli::number<unsigned>(part);
    if (!count || *count < 1 || *count > kMostThreads)
      return cli::wrong("threads", part, "whole numbers from 1 to 4096, as 1,2,16");
    add_distinct(counts, *count);
  }
  if (counts.empty()) return cli::wrong("threads", *text, "whole numbers from 1 to 4096, as 1,2,16");
  return counts;
}

Result<void> read_elements(const cli::Values& values, const std::string& option, std::uint64_t& target) {
  CASTOR_TRY(cli::read_count<std::uint64_t>(values, option, 1, kMostElements, target));
  target = align_up(target, kElementGrain);
  return {};
}

}  // namespace

cli::CommandSyntax adam_syntax() {
  namespace po = boost::program_options;
  cli::CommandSyntax syntax(
      "castor bench adam [options]",
      "Measures AdamW (fp32 states, bf16 gradients and weights) in turns with a loop that moves the same bytes and\n"
      "computes nothing, and with torch's fused AdamW, by the same number of threads on the same memory; on a GPU "
      "with\n"
      "a copy inside its memory, and on the host while the bus copies both ways.\n"
      "For figures to quote: --runs 7 --seconds 2 on a machine that does nothing else.");
  const auto text = [](const char* takes) { return po::value<std::string>()->value_name(takes); };
  syntax.options.add_options()                                                                                        //
      ("threads", text("N,..."), "threads of the update on the host (usual: 1, 2 and all cores)")                     //
      ("elements", text("N")->default_value("67108864"), "parameters; each takes 20 bytes of memory")                 //
      ("part", text("N")->default_value("16384"), "parameters that a call of the loop gets in the cases with parts")  //
      ("runs", text("N")->default_value("3"), "rounds of each case; the median counts")                               //
      ("seconds", text("S")->default_value("1"), "length of one run, to the next whole update")                       //
      ("device", text("cpu|cuda")->default_value("cpu"),
       "cuda: also the GPU's update, and the host's beside a busy bus");
  return syntax;
}

Result<AdamBenchOptions> read_adam_options(const cli::Values& values, unsigned n_cores) {
  AdamBenchOptions options;
  CASTOR_ASSIGN(options.threads, read_threads(values, n_cores));
  CASTOR_TRY(read_elements(values, "elements", options.n_elements));
  CASTOR_TRY(read_elements(values, "part", options.part_elements));
  CASTOR_TRY(read_run_length(values, options.runs, options.seconds));
  CASTOR_TRY(cli::read_choice<DeviceKind>(values, "device", {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}},
                                          options.device));
  return options;
}

}  // namespace castor::bench
