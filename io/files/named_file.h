// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include <castor/memory/result.h>

namespace castor {

/// Mode of the files that are made here.
inline constexpr mode_t kOwnerOnly = 0600;

/// The folder that `path` is in; `.` where it names none.
std::string folder_of(const std::string& path);

/// As path_error, for a file. For a missing one the advice is about its folder: that is what can be made by hand.
Error file_error(std::string_view what, const std::string& path, int error_number);

}  // namespace castor
