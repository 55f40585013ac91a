// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

namespace castor::cli {

Parsed parse_command(const CommandSyntax& syntax, const Arguments& arguments, Output& output) {
  auto values = parse(syntax, arguments);
  if (!values) return {output.fail(values.error()), {}};
  if (values->count("help") == 0) return {std::nullopt, *values};
  output.text(syntax.help());
  return {0, {}};
}

}  // namespace castor::cli
