// SPDX-License-Identifier: Apache-2.0
#include "files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <castor/memory/bytes.h>

namespace castor::bench {
namespace {

bool is_unnamed_file(int fd) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 0;
}

/// Bytes before the first hole: space that is only reserved is a hole to the file system.
std::uint64_t written_bytes(int fd) {
  const off_t end = ::lseek(fd, 0, SEEK_HOLE);
  return end > 0 ? static_cast<std::uint64_t>(end) : 0;
}

std::uint64_t cached_bytes_of(int fd, std::uint64_t n_bytes) {
  if (n_bytes == 0) return 0;
  void* map = ::mmap(nullptr, n_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return 0;
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> held((n_bytes + page_bytes - 1) / page_bytes);
  const bool said = ::mincore(map, n_bytes, held.data()) == 0;
  ::munmap(map, n_bytes);
  const auto n_held = std::count_if(held.begin(), held.end(), [](unsigned char page) { return (page & 1) != 0; });
  return said ? static_cast<std::uint64_t>(n_held) * page_bytes : 0;
}

Error cannot_make(const std::string& folder, int error_number) {
  return {ErrorKind::io, "cannot make a file to measure with in " + folder + ": " + std::strerror(error_number) +
                             "; name a folder that can be written, with room for --span twice"};
}

}  // namespace

std::vector<int> unnamed_files() {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (is_unnamed_file(fd)) found.push_back(fd);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Region region_of(std::vector<int> files, std::uint64_t n_bytes, std::uint64_t grain_bytes) {
  std::uint64_t shortest = files.empty() ? 0 : n_bytes / files.size();
  bool direct = !files.empty();
  for (const int fd : files) {
    shortest = std::min(shortest, written_bytes(fd));
    direct = direct && (::fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  }
  return {std::move(files), shortest / grain_bytes * grain_bytes, direct};
}

void flush(const Region& region) {
  for (const int fd : region.files) ::fdatasync(fd);
}

std::uint64_t cached_bytes(const Region& region) {
  std::uint64_t n_bytes = 0;
  for (const int fd : region.files) n_bytes += cached_bytes_of(fd, region.file_bytes);
  return n_bytes;
}

std::uint64_t machine_cache_bytes() {
  std::ifstream file("/proc/meminfo");
  const std::string name = "Cached:";
  for (std::string line; std::getline(file, line);)
    if (line.rfind(name, 0) == 0) return std::strtoull(line.c_str() + name.size(), nullptr, 10) * kKiB;
  return 0;
}

Result<NamedFiles> NamedFiles::create(const std::vector<std::string>& folders, std::uint64_t file_bytes) {
  NamedFiles made;
  for (const std::string& folder : folders) {
    std::string path = folder + "/.castor-bench-XXXXXX";
    UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
    if (!fd) return cannot_make(folder, errno);
    made.paths_.push_back(path);
    const int error_number = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(file_bytes));
    if (error_number != 0) return cannot_make(folder, error_number);
    made.files_.push_back(std::move(fd));
  }
  return made;
}

NamedFiles::~NamedFiles() {
  for (const std::string& path : paths_) ::unlink(path.c_str());
}

}  // namespace castor::bench
