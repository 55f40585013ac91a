// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <array>
#include <exception>
#include <iostream>
#include <new>

#include "commands.h"

#include <castor/plugins/nearest_name.h>
#include <castor/version.h>

namespace castor::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&, Output&);
};

constexpr std::array<Command, 7> kCommands = {{
    {"check", "show which parts were built in and which this machine supports", run_check},
    {"train", "train a model through the memory tiers", run_train},
    {"bench", "measure drives or the update, each figure beside its ceiling", run_bench},
    {"plan", "compute the memory and time of a recorded step under other budgets", run_plan},
    {"estimate", "compute the memory and step time of a model before anything is allocated", run_estimate},
    {"plugins", "list the plugins that were found, and why others were refused", run_plugins},
    {"memprof", "summarise a trace: memory, links and waits", run_memprof},
}};

std::string help() {
  std::string text =
      "usage: castor COMMAND [options]\n\n"
      "Trains neural networks that are larger than the device, over device memory, host memory and NVMe drives.\n\n"
      "commands\n";
  for (const Command& command : kCommands) {
    const std::string name = command.name;
    text += "  " + name + std::string(10 - name.size(), ' ') + command.summary + "\n";
  }
  return text +
         "\n`castor COMMAND --help` shows its options and their defaults; `castor --version` the version.\n"
         "Exit codes: 0 done, 2 usage, 3 does not fit, 4 I/O, 5 plugin, 130 Ctrl-C, 1 anything else.\n";
}

Error unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  const std::string near = did_you_mean(word, names);
  return {ErrorKind::usage,
          "unknown command '" + word + "'" + (near.empty() ? "; there are " + join(names, ", ") : near)};
}

int dispatch(const Arguments& arguments, Output& output) {
  if (arguments.empty()) return output.note(help()), static_cast<int>(ErrorKind::usage);
  const std::string& word = arguments[0];
  if (word == "--help" || word == "-h" || word == "help") return std::cout << help(), 0;
  if (word == "--version") return std::cout << "castor " CASTOR_VERSION "\n", 0;
  for (const Command& command : kCommands) {
    if (word == command.name) return command.run({arguments.begin() + 1, arguments.end()}, output);
  }
  return output.fail(unknown_command(word));
}

int run(const Arguments& arguments) {
  Output output(std::cout, std::cerr, has_flag(arguments, "--json"));
  try {
    return dispatch(arguments, output);
  } catch (const ErrorException& e) {
    return output.fail(e.error());
  } catch (const std::bad_alloc&) {
    return output.fail({ErrorKind::does_not_fit, "the system has no memory left for this process"});
  } catch (const std::exception& e) {
    return output.fail({ErrorKind::failed, e.what()});
  }
}

}  // namespace
}  // namespace castor::cli

int main(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);  // exceeding a file-size limit is then an I/O error with a message instead of a fatal
                             // signal
  return castor::cli::run({argv + 1, argv + argc});
}
