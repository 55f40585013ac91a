// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include "commands.h"

#include <castor/memory/system_limit.h>
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
         "Exit codes: 0 done, 2 usage, 3 does not fit, 4 I/O, 5 plugin, 128 + N stopped by signal N (130 Ctrl-C, 143 "
         "SIGTERM), 1 anything else.\n";
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
  if (word == "--help" || word == "-h" || word == "help") return output.text(help()), 0;
  if (word == "--version") return output.text("castor " CASTOR_VERSION), 0;
  for (const Command& command : kCommands) {
    if (word == command.name) return command.run({arguments.begin() + 1, arguments.end()}, output);
  }
  return output.fail(unknown_command(word));
}

int run(const Arguments& arguments, Output& output) {
  try {
    return dispatch(arguments, output);
  } catch (const ErrorException& e) {
    return output.fail(e.error());
  } catch (const std::bad_alloc&) {
    return output.fail(*limit_error(ENOMEM));
  } catch (const std::system_error& e) {
    return output.fail(limit_or_failure(e));
  } catch (const std::exception& e) {
    return output.fail({ErrorKind::failed, e.what()});
  }
}

/// A file that is opened later never becomes the standard output or error of a process that was started without them.
void keep_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

/// A file-size limit that is exceeded and a reader that went away are then errors of the write, not fatal signals.
void ignore_fatal_signals_of_writes() {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

}  // namespace
}  // namespace castor::cli

int main(int argc, char** argv) {
  using namespace castor::cli;
  keep_standard_streams();
  ignore_fatal_signals_of_writes();
  const Arguments arguments(argv + 1, argv + argc);
  Output output(std::cout, std::cerr, has_flag(arguments, "--json"));
  const int code = output.ended(run(arguments, output));
  if (code != 0) _exit(code);  // libraries whose threads could not be started crash in their destructors
  return 0;
}
