// SPDX-License-Identifier: Apache-2.0
// The child process of folder_ops_test, in which the system refuses something:
//   folder_child replace DIR NAME N      makes NAME a file of N bytes with replace_file, then the same with 2 N; prints
//                                        the outcome of the second, the bytes of NAME and the names in DIR
//   folder_child limit BYTES replace …   the same with files of at most BYTES
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "../child.h"
#include "files/folder_ops.h"

namespace castor::test {
namespace {

int replace(const std::string& folder, const std::string& name, std::size_t n_bytes) {
  SystemFolderOps ops;
  replace_file(ops, folder, name, std::vector<std::byte>(n_bytes)).value();
  const auto outcome = replace_file(ops, folder, name, std::vector<std::byte>(2 * n_bytes));
  std::printf("%s\n%zu bytes\n", outcome.ok() ? "ok" : outcome.error().message.c_str(),
              ops.read_file(folder + "/" + name, 1 << 30).value()->size());
  const auto names = ops.list(folder).value();
  for (const auto& found : names) std::printf("%s\n", found.c_str());
  return 0;
}

int run(const Arguments& arguments) {
  std::signal(SIGXFSZ, SIG_IGN);
  if (arguments.at(0) == "replace") return replace(arguments.at(1), arguments.at(2), std::stoull(arguments.at(3)));
  return 2;
}

}  // namespace
}  // namespace castor::test

int main(int argc, char** argv) { return castor::test::run(castor::test::apply_limit({argv + 1, argv + argc})); }
