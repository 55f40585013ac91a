// SPDX-License-Identifier: Apache-2.0
// The child process of store_limits_test, in which the system refuses something:
//   store_child steps DIR N       puts N values of 1 MiB in a durable store, commits, and checks them in another one
//   store_child full DIR          fills DIR's file system with puts, and continues when there is room again
//   store_child no-manifest DIR   leaves no room for the manifest, and continues when there is
//   store_child memory DIR N      registers N bytes of memory and uses them; prints how many the engine took
//   store_child vanish DIR        removes DIR while a durable and a scratch store work there
//   store_child limit BYTES …     the same as `store_child …` with files of at most BYTES
// Prints the outcome; the exit code is the error's kind, 0 where everything was right.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <castor/io/folder.h>
#include <castor/io/tensor_store.h>

#include "../child.h"
#include "../../support/test_buffer.h"

namespace castor::test {
namespace {

namespace fs = std::filesystem;

Error wrong(const std::string& what) { return {ErrorKind::failed, what}; }

TensorStoreOptions durable(const std::string& folder) {
  TensorStoreOptions options;
  options.folders = {folder};
  options.durability = Durability::commit;
  return options;
}

Result<void> put(TensorStore& store, std::uint64_t key) {
  const TestBuffer out(kMiB, key);
  return store.put(key, out.view()).wait();
}

Result<void> check(TensorStore& store, std::uint64_t key) {
  const TestBuffer in(kMiB);
  CASTOR_TRY(store.get(key, in.view()).wait());
  return in.holds(key) ? Result<void>() : wrong("key " + std::to_string(key) + " came back wrong");
}

/// Opens the store of `folder` again and checks that it holds the keys 0 to n − 1 and no other.
Result<void> check_reopened(const std::string& folder, std::uint64_t n) {
  CASTOR_ASSIGN(const auto store, TensorStore::open(durable(folder)));
  if (store->keys().size() != n) return wrong(std::to_string(store->keys().size()) + " keys came back");
  for (std::uint64_t key = 0; key < n; ++key) CASTOR_TRY(check(*store, key));
  return {};
}

Result<void> steps(const std::string& folder, std::uint64_t n) {
  {
    CASTOR_ASSIGN(const auto store, TensorStore::open(durable(folder)));
    for (std::uint64_t key = 0; key < n; ++key) CASTOR_TRY(put(*store, key));
    CASTOR_TRY(store->commit(1).wait());
  }
  return check_reopened(folder, n);
}

/// Whether `outcome` is an error of kind io; prints it.
Result<void> must_fail(const Result<void>& outcome, const std::string& what) {
  if (outcome.ok()) return wrong(what + " went well");
  if (outcome.error().kind != ErrorKind::io) return outcome;
  std::printf("%s\n", outcome.error().message.c_str());
  return {};
}

Result<void> full(const std::string& folder) {
  std::uint64_t n = 0;
  {
    CASTOR_ASSIGN(const auto store, TensorStore::open(durable(folder)));
    Result<void> last;
    while ((last = put(*store, n)).ok()) ++n;
    CASTOR_TRY(must_fail(last, "the last put"));
    CASTOR_TRY(must_fail(store->commit(1).wait(), "a commit after a put that failed"));
    for (std::uint64_t key = 0; key < n; ++key) CASTOR_TRY(check(*store, key));
    store->remove(n);
    store->remove(--n);
    CASTOR_TRY(put(*store, n - 1));  // in its present room; that of another key is free for the manifest now
    CASTOR_TRY(store->commit(2).wait());
  }
  return check_reopened(folder, n);
}

void fill(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  const std::vector<char> zeros(4096);
  while (file.write(zeros.data(), static_cast<std::streamsize>(zeros.size())).flush()) {
  }
}

Result<void> no_manifest(const std::string& folder) {
  {
    CASTOR_ASSIGN(const auto store, TensorStore::open(durable(folder)));
    CASTOR_TRY(put(*store, 0));
    CASTOR_TRY(put(*store, 1));
    fill(folder + "/rest");
    CASTOR_TRY(must_fail(store->commit(1).wait(), "a commit without room"));
    if (store->committed_step()) return wrong("it counts as committed");
    fs::remove(folder + "/rest");
    CASTOR_TRY(put(*store, 1));
    CASTOR_TRY(store->commit(2).wait());
  }
  return check_reopened(folder, 2);
}

Result<void> memory(const std::string& folder, std::uint64_t n_bytes) {
  TensorStoreOptions options;
  options.folders = {folder};
  CASTOR_ASSIGN(const auto store, TensorStore::open(options));
  const TestBuffer bytes(n_bytes, 1);
  const auto taken_bytes = store->register_memory(bytes.view());
  CASTOR_TRY(store->put(1, bytes.view()).wait());
  bytes.fill(2);
  CASTOR_TRY(store->get(1, bytes.view()).wait());
  if (!bytes.holds(1)) return wrong("other bytes came back");
  store->unregister_memory(bytes.view());
  std::printf("%s took %llu bytes\n", std::string(store->engine_name()).c_str(),
              static_cast<unsigned long long>(taken_bytes));
  return {};
}

/// Open files outlive their folder: puts and gets still work. A commit does not.
Result<void> vanish(const std::string& folder) {
  fs::create_directory(folder + "/scratch");
  fs::create_directory(folder + "/durable");
  TensorStoreOptions options;
  options.folders = {folder + "/scratch"};
  CASTOR_ASSIGN(const auto scratch, TensorStore::open(options));
  CASTOR_ASSIGN(const auto store, TensorStore::open(durable(folder + "/durable")));
  for (TensorStore* each : {scratch.get(), store.get()}) CASTOR_TRY(put(*each, 1));
  CASTOR_TRY(store->commit(1).wait());
  fs::remove_all(folder + "/scratch");
  fs::remove_all(folder + "/durable");
  for (TensorStore* each : {scratch.get(), store.get()}) {
    CASTOR_TRY(check(*each, 1));
    CASTOR_TRY(put(*each, 1));
    CASTOR_TRY(put(*each, 2));
    CASTOR_TRY(check(*each, 1));
    CASTOR_TRY(check(*each, 2));
  }
  CASTOR_TRY(must_fail(store->commit(2).wait(), "a commit into a folder that is gone"));
  for (TensorStore* each : {scratch.get(), store.get()}) CASTOR_TRY(check(*each, 1));
  store->remove(1);
  return must_fail(store->commit(3).wait(), "another");
}

Result<void> run(const Arguments& arguments) {
  const std::string& command = arguments.at(0);
  const std::string& folder = arguments.at(1);
  if (command == "steps") return steps(folder, std::stoull(arguments.at(2)));
  if (command == "full") return full(folder);
  if (command == "no-manifest") return no_manifest(folder);
  if (command == "memory") return memory(folder, std::stoull(arguments.at(2)));
  if (command == "vanish") return vanish(folder);
  return Error{ErrorKind::usage, "no such command"};
}

}  // namespace
}  // namespace castor::test

int main(int argc, char** argv) {
  using namespace castor::test;
  return report(run(apply_limit({argv + 1, argv + argc})));
}
