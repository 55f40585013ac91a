// SPDX-License-Identifier: Apache-2.0
#include "io_error.h"

#include <cerrno>
#include <system_error>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

const char* name(IoOp op) {
  switch (op) {
    case IoOp::read: return "read";
    case IoOp::write: return "write";
    case IoOp::sync: return "sync";
  }
  throw ContractViolation("IoOp holds no operation");
}

/// The option that helps where a drive is full; else none.
const char* option_for(int error_number) { return error_number == ENOSPC || error_number == EDQUOT ? "nvme" : ""; }

/// `write of 1.00 MiB (1048576 bytes) at offset 4096 of /x`
std::string describe(const IoRequest& request) {
  const std::string path(request.path);
  if (request.op == IoOp::sync) return "sync of " + path;
  return std::string(name(request.op)) + " of " + format_bytes(request.bytes.n_bytes) + " (" +
         std::to_string(request.bytes.n_bytes) + " bytes) at offset " + std::to_string(request.offset_bytes) + " of " +
         path;
}

std::string after(std::uint64_t done_bytes) {
  return done_bytes == 0 ? std::string() : " after " + std::to_string(done_bytes) + " bytes";
}

}  // namespace

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

std::string errno_advice(int error_number, std::string_view path) {
  const std::string where(path);
  switch (error_number) {
    case ENOSPC: return "free space there or name a folder on another drive with `nvme`";
    case EDQUOT: return "free some of your quota there or name another folder with `nvme`";
    case EFBIG: return "raise the limit on file sizes (ulimit -f) or name a folder on a file system with larger files";
    case EIO: return "the drive failed: look at the kernel's log (dmesg) and name a folder on another drive";
    case ENOENT: return "create it (mkdir -p " + where + ") or name another";
    case ENOTDIR: return "name a folder";
    case EACCES:
    case EPERM: return "give yourself the right to it (chmod u+rwx) or name another";
    case EROFS: return "mount it writable or name another folder";
    case ELOOP: return "symbolic links are not followed: name the path that it points to";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    case ENOMEM: return "free host memory or raise the memlock limit (ulimit -l)";
    case EINVAL: return "offset, length and address of direct I/O must be multiples of the file's alignment";
    case ETIMEDOUT: return "the drive is slow or hangs: look at the kernel's log (dmesg) or allow more time";
    case ECANCELED:
      return "the kernel gave the request up, as it does where it cannot start a thread for it: raise the limit of "
             "processes and threads (ulimit -u, pids.max of the control group)";
    case EBADF: return "the file is closed, or was opened for the other direction";
    default: return "look at the kernel's log (dmesg)";
  }
}

Error request_error(const IoRequest& request, std::uint64_t done_bytes, int error_number) {
  return {ErrorKind::io,
          describe(request) + " failed" + after(done_bytes) + ": " + errno_text(error_number) + "; " +
              errno_advice(error_number, request.path),
          option_for(error_number)};
}

Error stalled_error(const IoRequest& request, std::uint64_t done_bytes) {
  const char* why = request.op == IoOp::read
                        ? ": the file ends there; it is shorter than what was written to it, or was never written"
                        : ": the file system takes no more bytes; look at the kernel's log (dmesg)";
  return {ErrorKind::io, describe(request) + " stopped after " + std::to_string(done_bytes) + " bytes" + why};
}

Error io_error(const IoRequest& request, const IoOutcome& outcome) {
  if (outcome.error_number == ENODATA) return stalled_error(request, outcome.moved_bytes);
  return request_error(request, outcome.moved_bytes, outcome.error_number);
}

Result<std::uint64_t> io_result(const IoRequest& request, const IoOutcome& outcome) {
  return outcome.ok() ? Result<std::uint64_t>(outcome.moved_bytes) : io_error(request, outcome);
}

Error path_error(std::string_view what, std::string_view path, int error_number) {
  return {ErrorKind::io, std::string(what) + ": " + errno_text(error_number) + "; " + errno_advice(error_number, path),
          option_for(error_number)};
}

}  // namespace castor
