// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace castor::test {

struct CommandOutcome {
  int exit_code = -1;  ///< 128 + the signal where one ended it, as shells say
  std::string output;  ///< stdout and stderr
};

/// Runs `command` in a shell to its end.
inline CommandOutcome run_command(const std::string& command) {
  FILE* pipe = popen(("( " + command + " ) 2>&1").c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  CommandOutcome outcome;
  std::array<char, 4096> text{};
  while (const auto n = std::fread(text.data(), 1, text.size(), pipe)) outcome.output.append(text.data(), n);
  const int status = pclose(pipe);
  outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

inline bool contains(const CommandOutcome& outcome, const std::string& text) {
  return outcome.output.find(text) != std::string::npos;
}

}  // namespace castor::test
