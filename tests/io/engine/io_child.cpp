// SPDX-License-Identifier: Apache-2.0
// The child process of io_limits_test, in which the system refuses something:
//   io_child engine          prints the engine that `best` gives, and its fallback reason
//   io_child store DIR N     puts and gets N values of 1 MiB; prints the outcome; the exit code is the error's kind
//   io_child die DIR         is killed while puts are in flight
//   io_child probe DIR       prints the answer of probe_folder
//   io_child limit BYTES …   the same as `io_child …` with files of at most BYTES
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <castor/io/folder.h>
#include <castor/io/tensor_store.h>

#include "../child.h"
#include "../../support/test_buffer.h"

namespace castor::test {
namespace {

int engine() {
  const auto made = make_io_engine(EngineChoice::best).value();
  std::printf("%s: %s\n", std::string(made->name()).c_str(), made->fallback_reason().c_str());
  return report(make_io_engine(EngineChoice::uring));
}

Result<void> put_and_get(const std::string& folder, std::uint64_t n_values) {
  CASTOR_ASSIGN(const auto store, TensorStore::open(TensorStoreOptions{{folder}}));
  std::vector<TestBuffer> values;
  for (std::uint64_t key = 0; key < n_values; ++key) values.emplace_back(kMiB, key);
  for (std::uint64_t key = 0; key < n_values; ++key) store->put(key, values[key].view());
  CASTOR_TRY(store->drain());
  const TestBuffer in(kMiB);
  for (std::uint64_t key = 0; key < n_values; ++key) {
    CASTOR_TRY(store->get(key, in.view()).wait());
    if (!in.holds(key)) return Error{ErrorKind::failed, "key " + std::to_string(key) + " came back wrong"};
  }
  return {};
}

int die(const std::string& folder) {
  const auto store = TensorStore::open(TensorStoreOptions{{folder}}).value();
  const TestBuffer first(kMiB, 1), second(64 * kMiB, 2);
  store->put(1, first.view()).wait().value();
  store->put(2, second.view());
  return std::raise(SIGKILL);
}

int probe(const std::string& folder) {
  const auto found = probe_folder(folder);
  if (!found.ok()) return report(found);
  std::printf("writable=%d direct=%d unnamed=%d %s\n", found->writable, found->direct, found->unnamed,
              found->detail.c_str());
  return 0;
}

int run(const Arguments& arguments) {
  const std::string& command = arguments.at(0);
  if (command == "engine") return engine();
  if (command == "store") return report(put_and_get(arguments.at(1), std::stoull(arguments.at(2))));
  if (command == "die") return die(arguments.at(1));
  if (command == "probe") return probe(arguments.at(1));
  return 2;
}

}  // namespace
}  // namespace castor::test

int main(int argc, char** argv) { return castor::test::run(castor::test::apply_limit({argv + 1, argv + argc})); }
