// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "check/probes.h"
#include "cli/commands.h"
#include "cli/words.h"

namespace castor::cli {
namespace {

CommandSyntax check_syntax() {
  CommandSyntax syntax(
      "castor check [--dir DIR] [options]",
      "Shows which parts were built in and which this machine supports, by trying each. A missing part is no error:\n"
      "Castor works without it, and its line says with which effect.");
  syntax.options.add_options()("dir",
                               boost::program_options::value<std::string>()->default_value(".")->value_name("DIR"),
                               "the folder to try direct I/O in, as --nvme would use it");
  return syntax;
}

std::vector<check::Finding> probe_all(const std::string& folder) {
  std::vector<check::Finding> findings = check::probe_build();
  for (const auto& more : {check::probe_machine(), check::probe_folder(folder)})
    findings.insert(findings.end(), more.begin(), more.end());
  findings.push_back(check::probe_plugins());
  return findings;
}

}  // namespace

int run_check(const Arguments& arguments, Output& output) {
  const Parsed parsed = parse_command(check_syntax(), arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  nlohmann::json object = nlohmann::json::object();
  for (const check::Finding& finding : probe_all(parsed.values["dir"].as<std::string>())) {
    const std::string detail = cli::worded(finding.detail);
    output.line(fmt::format("{} {:<11} {}", finding.ok ? "✓" : "✗", finding.name, detail));
    object[finding.name] = {{"ok", finding.ok}, {"detail", detail}};
  }
  output.result(object);
  return 0;
}

}  // namespace castor::cli
