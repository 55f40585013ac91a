// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <castor/io/io_engine.h>

#include "store_files.h"
#include "stripes/stripe_set.h"

namespace castor {

/// The files and engines that a store is opened with.
struct StoreParts {
  std::unique_ptr<FolderOps> folder_ops;
  std::unique_ptr<StoreFiles> files;  ///< null for scratch
  std::unique_ptr<StripeSet> set;
  std::vector<std::unique_ptr<IoEngine>> engines;
  std::vector<std::size_t> engine_of;  ///< per volume
  std::size_t pieces_per_volume = 1;
  std::vector<std::string> warnings;

  IoEngine& engine(std::size_t volume) const { return *engines[engine_of[volume]]; }
};

}  // namespace castor
