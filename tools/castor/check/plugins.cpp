// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/plugin_loader.h>
#include <castor/training/plugin_folders.h>

#include "check/probes.h"
#include "cli/torch_tag.h"

namespace castor::check {

Finding probe_plugins() {
  std::string names;
  std::size_t n_refused = 0;
  for (const PluginListing& listing : PluginLoader(torch_tag(), plugin_folders()).list()) {
    n_refused += !listing.plugin.ok();
    if (listing.plugin) names += (names.empty() ? "" : ", ") + std::string(listing.plugin->info->name);
  }
  const std::string refused =
      n_refused == 0 ? "" : "; " + std::to_string(n_refused) + " refused, see `castor plugins list`";
  return {"plugins", !names.empty(),
          (names.empty() ? "none found; name their folder in CASTOR_PLUGIN_PATH" : names) + refused};
}

}  // namespace castor::check
