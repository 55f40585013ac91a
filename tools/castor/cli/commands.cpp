// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include <iostream>

namespace castor::cli {

Parsed parse_command(const CommandSyntax& syntax, const Arguments& arguments, Output& output) {
  auto values = parse(syntax, arguments);
  if (!values) return {output.fail(values.error()), {}};
  if (values->count("help") == 0) return {std::nullopt, *values};
  std::cout << syntax.help() << std::flush;
  return {0, {}};
}

}  // namespace castor::cli
