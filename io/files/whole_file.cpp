// SPDX-License-Identifier: Apache-2.0
#include <castor/io/whole_file.h>

#include <unistd.h>

#include <cerrno>

#include <castor/io/file_beside.h>

#include "cannot_write.h"
#include "size_signal.h"

namespace castor {
namespace {

Result<void> write_all(const FileBeside& file, std::string_view bytes) {
  const SizeSignalBlock no_signal;
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.fd(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot_write(file.target());
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return ::fdatasync(file.fd()) == 0 ? Result<void>() : cannot_write(file.target());
}

}  // namespace

Result<void> check_whole_file(const std::string& path) {
  CASTOR_TRY(FileBeside::create(path));
  return {};
}

Result<void> write_whole_file(const std::string& path, std::string_view bytes) {
  CASTOR_ASSIGN(FileBeside file, FileBeside::create(path));
  CASTOR_TRY(write_all(file, bytes));
  return file.take_place();
}

}  // namespace castor
