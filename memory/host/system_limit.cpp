// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/system_limit.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

/// The soft limit, or "unlimited".
std::string limit_text(int resource, bool of_bytes) {
  rlimit limit = {};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return of_bytes ? format_bytes(limit.rlim_cur) : std::to_string(limit.rlim_cur);
}

Error ran_out(ErrorKind kind, int error_number, const std::string& what, const std::string& way_out) {
  return {kind, what + ": " + std::generic_category().message(error_number) + "; " + way_out};
}

}  // namespace

std::optional<Error> limit_error(int error_number) {
  switch (error_number) {
    case EAGAIN:
      return ran_out(ErrorKind::failed, error_number, "the system starts no more threads for this process",
                     "raise the limit of processes and threads (ulimit -u, now " + limit_text(RLIMIT_NPROC, false) +
                         "; pids.max of the control group) or of the address space (ulimit -v, now " +
                         limit_text(RLIMIT_AS, true) + ")");
    case EMFILE:
      return ran_out(ErrorKind::failed, error_number, "this process may open no more files",
                     "raise the limit on open files (ulimit -n, now " + limit_text(RLIMIT_NOFILE, false) + ")");
    case ENFILE:
      return ran_out(ErrorKind::failed, error_number, "the system opens no more files",
                     "raise its limit (sysctl fs.file-max)");
    case ENOMEM:
      return ran_out(ErrorKind::does_not_fit, error_number, "the system has no memory left for this process",
                     "free memory, or raise the limits of the address space (ulimit -v, now " +
                         limit_text(RLIMIT_AS, true) + "), of data (ulimit -d, now " + limit_text(RLIMIT_DATA, true) +
                         ") or of the control group");
    default: return std::nullopt;
  }
}

Error limit_or_failure(const std::system_error& refused) {
  return limit_error(refused.code().value()).value_or(Error{ErrorKind::failed, refused.what()});
}

Result<void> check_spare_files(int n_files) {
  std::vector<int> opened;
  int refused = 0;
  for (int i = 0; i < n_files && refused == 0; ++i) {
    const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    file < 0 ? void(refused = errno) : opened.push_back(file);
  }
  for (const int file : opened) ::close(file);
  if (refused == 0) return {};
  return limit_or_failure(std::system_error(refused, std::generic_category(), "cannot open /dev/null"));
}

}  // namespace castor
