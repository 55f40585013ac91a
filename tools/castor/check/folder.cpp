// SPDX-License-Identifier: Apache-2.0
#include <castor/io/folder.h>
#include <castor/memory/bytes.h>

#include "check/probes.h"

namespace castor::check {

std::vector<Finding> probe_folder(const std::filesystem::path& folder) {
  const std::string where = folder.string();
  const auto probe = castor::probe_folder(where);
  if (!probe) return {{"o_direct", false, probe.error().message}};
  const std::string why = probe->detail.empty() ? "" : ": " + probe->detail;
  return {
      {"o_direct", probe->direct, probe->direct ? "works in " + where : "not in " + where + why},
      {"o_tmpfile", probe->unnamed, probe->unnamed ? "works in " + where : "not in " + where + why},
      {"free_space", probe->writable,
       format_bytes(probe->free_bytes) + " in " + where + (probe->writable ? "" : ", but it cannot be written" + why)},
  };
}

}  // namespace castor::check
