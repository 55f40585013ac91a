// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include <castor/plugins/option_schema.h>

namespace castor {

/// Options in the form in which a plugin's create takes them.
class OptionValues {
 public:
  /// Borrows the texts of `options`.
  explicit OptionValues(const PluginOptions& options);
  OptionValues(const OptionValues&) = delete;
  OptionValues& operator=(const OptionValues&) = delete;

  std::span<const castor_option_value* const> view() const { return pointers_; }

 private:
  std::vector<castor_option_value> values_;
  std::vector<const castor_option_value*> pointers_;  ///< to the elements of values_
};

}  // namespace castor
