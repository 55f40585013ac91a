// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/plugins/booster.h>
#include <castor/plugins/export_strategy.h>

namespace castor::test {

/// The strategy of `make` behind the C border, as if a plugin named "gemini" had made it, and attached. Threads: one at
/// a time.
inline Result<std::unique_ptr<Strategy>> through_border(ModelHost& host, const StrategyMaker& make) {
  static const StrategyMaker* current = nullptr;
  static castor_plugin_info info = {.magic = CASTOR_PLUGIN_MAGIC,
                                    .struct_size = sizeof info,
                                    .abi_major = CASTOR_ABI_MAJOR,
                                    .abi_minor = CASTOR_ABI_MINOR,
                                    .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_CUDA | CASTOR_CAP_RANKS,
                                    .torch_tag = "",
                                    .castor_tag = "",
                                    .name = "gemini",
                                    .version = "1",
                                    .summary = "in this process"};
  info.create = [](const castor_host_v2* tables, const castor_option_value* const*, std::size_t,
                   const castor_strategy_v2** out) { return export_strategy("gemini", *tables, *current, out); };
  current = &make;
  CASTOR_ASSIGN(const Booster booster, Booster::make({"", &info}, {}));
  return booster.boost(host);
}

}  // namespace castor::test
