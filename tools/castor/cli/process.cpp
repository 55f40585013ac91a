// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <castor/memory/bytes.h>
#include <castor/memory/device.h>

namespace castor::cli {
namespace {

/// The value of a line `name: 123 kB` of a file in /proc.
std::uint64_t kib_field(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * kKiB;
  }
  return 0;
}

Error folder_error(const std::filesystem::path& folder, const std::string& why) {
  return {ErrorKind::io, "--nvme: folder '" + folder.string() + "' " + why};
}

Result<void> check_folder(const std::filesystem::path& folder) {
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  if (!std::filesystem::exists(status)) return folder_error(folder, "does not exist; make it, or name another");
  if (!std::filesystem::is_directory(status))
    return folder_error(folder, "is not a folder; name one on the drive to use");
  if (access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return folder_error(
      folder, std::string("cannot be written to: ") + std::strerror(errno) + "; change its mode, or name another");
}

}  // namespace

std::uint64_t peak_rss_bytes() { return kib_field("/proc/self/status", "VmHWM"); }

std::uint64_t total_memory_bytes() { return kib_field("/proc/meminfo", "MemTotal"); }

Result<void> check_gpu() {
  const auto n_devices = count_cuda_devices();
  if (n_devices && *n_devices > 0) return {};
  std::string why = n_devices ? "no GPU in this machine; use --device cpu" : n_devices.error().message;
  return Error{ErrorKind::failed, why.rfind("no GPU", 0) == 0 ? why : "no GPU: " + why};
}

Result<void> check_folders(const std::vector<std::filesystem::path>& folders) {
  for (const auto& folder : folders) CASTOR_TRY(check_folder(folder));
  return {};
}

}  // namespace castor::cli
