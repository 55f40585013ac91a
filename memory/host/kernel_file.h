// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace castor {

/// The word number `index` of `file`, as a number; empty where there is no such file or word, or where the word is not
/// a number of 64 bits without a sign (`max`, `-1`, `unlimited`).
std::optional<std::uint64_t> number_in(const std::filesystem::path& file, std::size_t index = 0);

/// The number after `name` in the line of `file` that begins with it; empty as above.
std::optional<std::uint64_t> field_in(const std::filesystem::path& file, std::string_view name);

}  // namespace castor
