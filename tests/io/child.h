// SPDX-License-Identifier: Apache-2.0
// Shared by the child processes of the tests.
#pragma once

#include <sys/resource.h>

#include <cstdio>
#include <string>
#include <vector>

#include <castor/memory/result.h>

namespace castor::test {

using Arguments = std::vector<std::string>;

/// Prints the outcome, `ok` or the error; returns the exit code: 0, or the error's kind.
template <typename T>
int report(const Result<T>& outcome) {
  std::printf("%s\n", outcome.ok() ? "ok" : outcome.error().message.c_str());
  return outcome.ok() ? 0 : static_cast<int>(outcome.error().kind);
}

/// `limit BYTES …` does the same as `…` with files of at most BYTES; returns the remaining arguments.
inline Arguments apply_limit(const Arguments& arguments) {
  if (arguments.at(0) != "limit") return arguments;
  const rlimit limit{std::stoull(arguments.at(1)), std::stoull(arguments.at(1))};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::perror("no limit can be set");  // the test misses its error then
  return {arguments.begin() + 2, arguments.end()};
}

}  // namespace castor::test
