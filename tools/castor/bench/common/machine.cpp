// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include <fstream>
#include <string>
#include <thread>

#include "cli/process.h"

namespace castor::bench {
namespace {

/// `model name : …` of /proc/cpuinfo; "unknown" if the kernel does not report it.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

nlohmann::json machine_json() {
  utsname system{};
  ::uname(&system);
  return {{"processor", processor()},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", cli::total_memory_bytes()},
          {"kernel", std::string(system.sysname) + " " + system.release}};
}

}  // namespace castor::bench
