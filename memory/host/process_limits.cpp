// SPDX-License-Identifier: Apache-2.0
#include "process_limits.h"

#include <unistd.h>

#include <array>

#include "kernel_file.h"

namespace castor {
namespace {

struct Kind {
  const char* line;        ///< in /proc/self/limits
  std::size_t pages_word;  ///< of /proc/self/statm: the pages in use
  const char* name;
};

constexpr std::array kKinds = {Kind{"Max address space", 0, "limit of the address space (ulimit -v)"},
                               Kind{"Max data size", 5, "limit of the data size (ulimit -d)"}};

}  // namespace

std::vector<ProcessLimit> process_limits(const std::filesystem::path& root) {
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto folder = root / "proc/self";
  std::vector<ProcessLimit> limits;
  for (const Kind& kind : kKinds)
    if (const auto limit_bytes = field_in(folder / "limits", kind.line))
      limits.push_back(
          {kind.name, *limit_bytes, number_in(folder / "statm", kind.pages_word).value_or(0) * page_bytes});
  return limits;
}

}  // namespace castor
