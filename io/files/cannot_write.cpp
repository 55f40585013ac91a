// SPDX-License-Identifier: Apache-2.0
#include "cannot_write.h"

#include <cerrno>

#include "engine/io_error.h"
#include "named_file.h"

namespace castor {

Error cannot_write(const std::string& target) {
  const int number = errno;
  const bool full = number == ENOSPC || number == EDQUOT;
  const std::string advice = full ? "free space there or name a file elsewhere"
                                  : errno_advice(number, number == ENOENT ? folder_of(target) : target);
  return {ErrorKind::io, "cannot write " + target + ": " + errno_text(number) + "; " + advice};
}

}  // namespace castor
