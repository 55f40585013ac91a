// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include <castor/io/io_engine.h>
#include <castor/memory/bytes.h>
#include <castor/memory/device.h>
#include <castor/memory/host_cpus.h>
#include <castor/memory/host_memory.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/text.h>

#include "check/probes.h"
#include "cli/process.h"

namespace castor::check {
namespace {

constexpr std::uint64_t kStagedBytes = 64 * kMiB;

Finding probe_cuda() {
  const auto n_devices = count_cuda_devices();
  if (!n_devices) return {"cuda", false, n_devices.error().message};
  if (*n_devices == 0) return {"cuda", false, "no GPU in this machine; use --device cpu"};
  const auto device = make_cuda_device(0);
  if (!device) return {"cuda", false, device.error().message};
  return {
      "cuda", true,
      fmt::format("{} × {}, {}", *n_devices, (*device)->description(), format_bytes((*device)->total_memory_bytes()))};
}

Finding probe_uring() {
  const auto engine = probe_io_uring();
  if (engine) return {"io_uring", true, *engine};
  return {"io_uring", false, engine.error().message};
}

/// The engine that a store uses here, and the reason why no better one works.
Finding ladder_of(const IoEngine& engine) {
  const std::string reason = engine.fallback_reason();
  return {"io_engine", true,
          fmt::format("{} ({}); the ladder is io_uring, threads{}", engine.name(), engine.details(),
                      reason.empty() ? "" : ": " + reason)};
}

/// Bytes that the ring can register in advance, out of the bytes that a store stages at a time.
Finding registered_buffers_of(IoEngine& engine) {
  HostResource memory;
  const auto buffer = Buffer::allocate(memory, kStagedBytes);
  if (!buffer) return {"registered_buffers", false, buffer.error().message};
  const auto taken_bytes = engine.register_buffer(buffer->view());
  engine.unregister_buffer(buffer->view());
  const bool all = taken_bytes == kStagedBytes;
  return {"registered_buffers", all,
          fmt::format("{} of {}{}", format_bytes(taken_bytes), format_bytes(kStagedBytes),
                      all ? "" : "; the memlock limit bounds them, each request pins the rest")};
}

std::vector<Finding> probe_engine() {
  const auto engine = make_io_engine(EngineChoice::best);
  if (engine) return {ladder_of(**engine), registered_buffers_of(**engine)};
  return {{"io_engine", false, engine.error().message}, {"registered_buffers", false, "no engine to try it with"}};
}

/// The limits that make `memory` less than the machine's, and the machine's own amount; "" where there are none.
std::string limits_text(const HostMemory& memory) {
  std::vector<std::string> limits;
  for (const std::string& limit : {memory.total.limit, memory.available.limit})
    if (!limit.empty() && limits != std::vector{limit}) limits.push_back(limit);
  if (limits.empty()) return "";
  return fmt::format("; limited by {}; the machine has {}", join(limits, " and "),
                     format_bytes(cli::total_memory_bytes()));
}

Finding probe_memory() {
  const HostMemory memory = host_memory();
  return {"memory", memory.total.n_bytes > 0,
          fmt::format("{} in all, {} available{}", format_bytes(memory.total.n_bytes),
                      format_bytes(memory.available.n_bytes), limits_text(memory))};
}

Finding probe_cpus() {
  const auto quota = cpu_quota();
  return {"cpus", true, fmt::format("{} usable, {}", usable_cpus(), quota ? "under " + quota->text : "no CPU quota")};
}

/// Registered I/O buffers and pinned memory count against this limit.
Finding probe_memlock() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return {"memlock", false, "the limit cannot be read"};
  if (limit.rlim_cur == RLIM_INFINITY) return {"memlock", true, "unlimited"};
  const bool enough = limit.rlim_cur >= 8 * kMiB;
  return {"memlock", enough,
          format_bytes(limit.rlim_cur) +
              (enough ? "" : "; io_uring may be refused, raise it with `ulimit -l` or in limits.conf")};
}

Finding probe_simd() {
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string found = simd_of(text.str());
  return {"simd", !found.empty(),
          fmt::format("{}; {} cores", found.empty() ? "none known here" : found, std::thread::hardware_concurrency())};
}

}  // namespace

std::vector<Finding> probe_machine() {
  std::vector<Finding> findings = {probe_cuda(),    probe_memory(), probe_cpus(),
                                   probe_memlock(), probe_simd(),   probe_uring()};
  for (auto& finding : probe_engine()) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace castor::check
