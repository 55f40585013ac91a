// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace castor {

/// The parts of `text` between separators, empty ones included: n separators make n + 1 parts, so that of an empty text
/// one empty part is left.
std::vector<std::string> split(std::string_view text, char separator);

/// `parts` with `separator` between them, and `last` before the last one: with `last` = " or ", `a`, `a or b`, `a, b or
/// c`. Empty parts count as well; no parts make an empty text.
std::string join(std::span<const std::string> parts, std::string_view last, std::string_view separator = ", ");

/// A list as one text, with commas between its parts; a comma or backslash within a part has a backslash before it.
std::string join_list(std::span<const std::string> parts);
/// The parts of such a text. A backslash before any other character stands for itself.
std::vector<std::string> split_list(std::string_view text);

/// `text`, with `\\xNN` in place of each byte that is no part of UTF-8: file names may hold any bytes, JSON may not.
std::string as_utf8(std::string_view text);

/// The shortest digits that read back as `value`.
std::string shortest(double value);

}  // namespace castor
