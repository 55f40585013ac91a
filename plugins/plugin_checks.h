// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include <string>

namespace castor {

/// The tags of the libraries that this host runs with: those that a plugin links must have the same.
struct HostTags {
  std::string torch;   ///< torch_build_tag() (runtime.h); empty where there is no LibTorch
  std::string castor;  ///< libcastor's version
};

/// Checks a description field by field: magic, size, major, minor, capabilities, tags, then its name, its create
/// function and its options. A field is read only after the checks that prove that it exists. Errors: plugin, each with
/// its own sentence: the value found, the value expected, the remedy. The sentence does not name the file.
Result<void> check_plugin_info(const castor_plugin_info& info, const HostTags& host);

}  // namespace castor
