// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include <cstdint>
#include <string_view>

namespace castor {

/// Sizes of the structs as version 1.0 had them: the least that every plugin of major version 1 has.
inline constexpr std::uint32_t kPluginInfoV1Bytes =
    offsetof(castor_plugin_info, create) + sizeof(castor_plugin_info::create);
inline constexpr std::uint32_t kStrategyV1Bytes =
    offsetof(castor_strategy_v1, destroy) + sizeof(castor_strategy_v1::destroy);
/// … and as version 1.2 had it.
inline constexpr std::uint32_t kStrategyV12Bytes =
    offsetof(castor_strategy_v1, forget) + sizeof(castor_strategy_v1::forget);

/// … and as version 1.3 had it.
inline constexpr std::uint32_t kStrategyV13Bytes =
    offsetof(castor_strategy_v1, announce_step) + sizeof(castor_strategy_v1::announce_step);

/// … and as version 1.4 had it.
inline constexpr std::uint32_t kStrategyV14Bytes =
    offsetof(castor_strategy_v1, write_state) + sizeof(castor_strategy_v1::write_state);

/// … and as version 1.7 had it.
inline constexpr std::uint32_t kStrategyV17Bytes =
    offsetof(castor_strategy_v1, restore) + sizeof(castor_strategy_v1::restore);

/// … and as version 1.12 had it.
inline constexpr std::uint32_t kStrategyV112Bytes =
    offsetof(castor_strategy_v1, abandon_step) + sizeof(castor_strategy_v1::abandon_step);

/// Checks a description field by field: magic, size, major, minor, capabilities, build tag, then its name, its create
/// function and its options. A field is read only after the checks that prove that it exists. Errors: plugin, each with
/// its own sentence: the value found, the value expected, the remedy. The sentence does not name the file.
Result<void> check_plugin_info(const castor_plugin_info& info, std::string_view host_build_tag);

}  // namespace castor
