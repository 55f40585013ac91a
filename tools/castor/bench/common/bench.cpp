// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <castor/plugins/nearest_name.h>

#include "run.h"
#include "cli/commands.h"

namespace castor::cli {
namespace {

struct Subcommand {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&, Output&);
};

constexpr std::array<Subcommand, 3> kSubcommands = {{
    {"io", "the tensor store against fio or a bare io_uring loop on the same drive", bench::run_io},
    {"adam", "the update against a loop that moves the same bytes, and against torch's fused AdamW", bench::run_adam},
    {"step", "optimizer steps whose states are on drives, against the drives' own mixed rate", bench::run_step},
}};

std::string help() {
  std::string text =
      "usage: castor bench WHAT [options]\n\nMeasures, each figure beside its ceiling in the same run.\n\nwhat\n";
  for (const Subcommand& one : kSubcommands) {
    const std::string name = one.name;
    text += "  " + name + std::string(8 - name.size(), ' ') + one.summary + "\n";
  }
  return text + "\n`castor bench WHAT --help` shows its options and their defaults.\n";
}

Error unknown(const std::string& word) {
  std::vector<std::string> names;
  for (const Subcommand& one : kSubcommands) names.push_back(one.name);
  const std::string near = did_you_mean(word, names);
  return {ErrorKind::usage, "castor bench cannot measure '" + word + "'" +
                                (near.empty() ? "; it can measure " + join(names, ", ") : near)};
}

}  // namespace

int run_bench(const Arguments& arguments, Output& output) {
  const bool asks = has_flag(arguments, "--help") || has_flag(arguments, "-h");
  if (asks && arguments[0][0] == '-') return output.line(help()), 0;
  if (arguments.empty() || arguments[0][0] == '-')
    return output.fail(
        {ErrorKind::usage,
         "castor bench needs the name of a benchmark; usage: castor bench io --dir DIR, or castor bench adam"});
  for (const Subcommand& one : kSubcommands)
    if (arguments[0] == one.name) return one.run({arguments.begin() + 1, arguments.end()}, output);
  return output.fail(unknown(arguments[0]));
}

}  // namespace castor::cli
