// SPDX-License-Identifier: Apache-2.0
#include "run_length.h"

#include <string>

#include "cli/option_values.h"

namespace castor::bench {
namespace {

constexpr unsigned kMostRuns = 1000;
constexpr double kLeastSeconds = 0.01, kMostSeconds = 3600;

}  // namespace

Result<void> read_run_length(const cli::Values& values, unsigned& runs, double& seconds) {
  CASTOR_TRY(cli::read_count(values, "runs", 1u, kMostRuns, runs));
  const std::string text = values["seconds"].as<std::string>();
  const auto length = cli::number<double>(text);
  if (!length || !(*length >= kLeastSeconds && *length <= kMostSeconds))
    return cli::wrong("seconds", text, "0.01 to 3600");
  seconds = *length;
  return {};
}

}  // namespace castor::bench
