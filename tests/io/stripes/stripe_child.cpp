// SPDX-License-Identifier: Apache-2.0
// The child process of the tests of files and stripes:
//   stripe_child open PATH              opens PATH to write and prints the outcome; the exit code is the error's kind
//   stripe_child leftovers DIR          removes the leftovers in DIR and prints their number
//   stripe_child buffered DIR           writes and reads odd ranges in DIR, which has no direct I/O and no fallocate
//   stripe_child fill KIB DIR…          takes values of KIB until nothing fits; prints their places, and the error
//   stripe_child limit BYTES …          the same as `stripe_child …` with files of at most BYTES
#include <cstdio>
#include <string>
#include <vector>

#include <castor/io/direct_file.h>

#include "../../support/test_buffer.h"
#include "../child.h"
#include "files/leftovers.h"
#include "stripes/stripe_set.h"

namespace castor::test {
namespace {

int leftovers(const std::string& folder) {
  const auto removed = remove_leftovers(folder, {});
  if (!removed.ok()) return report(removed);
  std::printf("%d\n", static_cast<int>(removed->n_files));
  return 0;
}

Result<void> write_and_read(const std::string& folder) {
  CASTOR_ASSIGN(const auto file, DirectFile::create_unnamed(folder));
  std::printf("%s\n", file.fallback_reason().c_str());
  const TestBuffer out(10001, 7), in(10001);
  CASTOR_TRY(file.write_bytes(4097, out.view()));
  CASTOR_TRY(file.read_bytes(4097, in.view()));
  if (!in.holds(7)) return Error{ErrorKind::failed, "other bytes came back"};
  CASTOR_TRY(file.reserve(0, kMiB));
  CASTOR_ASSIGN(const auto size, file.size_bytes());
  if (size != kMiB) return Error{ErrorKind::failed, "the file did not grow"};
  return file.punch(0, kMiB);
}

int fill(std::uint64_t n_bytes, const std::vector<std::string>& folders) {
  StripeOptions options;
  options.folders = folders;
  const auto set = StripeSet::open(options).value();
  for (std::uint64_t key = 0; true; ++key) {
    const auto placement = set->take(key, n_bytes);
    if (!placement.ok()) return report(placement);
    for (const auto& extent : placement->extents)
      std::printf("%llu ", static_cast<unsigned long long>(extent.n_bytes / kKiB));
    std::printf("KiB\n");
  }
}

int run(const Arguments& arguments) {
  const std::string& command = arguments.at(0);
  if (command == "open") return report(DirectFile::open(arguments.at(1), DirectFile::Mode::write));
  if (command == "leftovers") return leftovers(arguments.at(1));
  if (command == "buffered") return report(write_and_read(arguments.at(1)));
  if (command == "fill") return fill(std::stoull(arguments.at(1)) * kKiB, {arguments.begin() + 2, arguments.end()});
  return 2;
}

}  // namespace
}  // namespace castor::test

int main(int argc, char** argv) { return castor::test::run(castor::test::apply_limit({argv + 1, argv + argc})); }
