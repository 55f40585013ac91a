// SPDX-License-Identifier: Apache-2.0
// parse_trace on any text: it must not crash, nor take much memory, and a refusal is one sentence of bounded length.
#include <castor/memprof/summary.h>
#include <castor/memprof/trace.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::size_t kMostLetters = 1000;

constexpr std::string_view kTrace =
    R"({"castor_trace": 1, "units": ["a"], "chunks": [{"bytes": 4096, "dtype": "bf16", "what": "parameters", "units": [0]}],)"
    R"("budget_bytes": {"device": 1, "host": 2, "nvme": null}, "room_bytes": [[1], [1]], "non_model_bytes": 0,)"
    R"("allocator_bytes": null, "link_bytes_per_s": {"h2d": 1}, "moments": [], "samples": [[0, 1, 2, 3]], "spans": [],)"
    R"("step_ends_ns": [1], "totals": {}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = castor::memprof::parse_trace(text, "fuzzed");
  if (!trace.ok() && trace.error().message.size() > kMostLetters) std::abort();
  if (trace.ok()) (void)castor::memprof::summarize(*trace);
  return 0;
}

/// One in 16 inputs is a small trace, or the same with brackets that nest.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  if (seed % 16 != 0 || max_size < kTrace.size()) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, kTrace.data(), kTrace.size());
  return seed % 32 == 0 ? kTrace.size() : LLVMFuzzerMutate(data, kTrace.size(), max_size);
}
