// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include <castor/memory/result.h>

namespace castor {

/// The modes of new files: of scratch, and of what others may read as far as the umask lets them.
inline constexpr mode_t kOwnerOnly = 0600, kByUmask = 0666;

/// The folder of `path`; `.` where it names none.
std::string folder_of(const std::string& path);

/// As path_error, for a file. Where that is missing the advice is about its folder, which the user can create.
Error file_error(std::string_view what, const std::string& path, int error_number);

}  // namespace castor
