// SPDX-License-Identifier: Apache-2.0
#include "data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace castor::train {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Error failed_to(const std::string& what, const std::string& path, const std::string& why) {
  return {ErrorKind::io, "cannot " + what + " the data file '" + path + "': " + why};
}

Result<std::uint64_t> size_of(int fd, const std::string& path) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return failed_to("read", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return failed_to("read", path, "it is not an ordinary file");
  if (status.st_size == 0) return failed_to("train on", path, "it is empty");
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

std::uint64_t counter_random(std::uint64_t seed, std::uint64_t step, std::uint64_t sample) {
  return mix(mix(mix(seed) ^ step) ^ sample);
}

std::uint64_t scale_random(std::uint64_t random, std::uint64_t n) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(random) * n) >> 64);
}

Result<ByteData> ByteData::open(const std::filesystem::path& path, std::int64_t seq) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed_to("read", path.string(), std::strerror(errno));
  const auto n_bytes = size_of(fd, path.string());
  ByteData data(fd, path.string(), n_bytes ? *n_bytes : 0, static_cast<std::uint64_t>(seq) + 1);
  if (!n_bytes) return n_bytes.error();
  if (*n_bytes >= data.window_bytes_) return data;
  return failed_to("train on", path.string(),
                   "it has " + std::to_string(*n_bytes) + " bytes, and one sample of --seq " + std::to_string(seq) +
                       " needs " + std::to_string(data.window_bytes_) + "; take a longer file or a smaller --seq");
}

ByteData::ByteData(ByteData&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      n_bytes_(other.n_bytes_),
      window_bytes_(other.window_bytes_) {}

ByteData::~ByteData() {
  if (fd_ >= 0) close(fd_);
}

std::uint64_t ByteData::offset(std::uint64_t seed, std::uint64_t step, std::uint64_t sample) const {
  return scale_random(counter_random(seed, step, sample), n_bytes_ - window_bytes_ + 1);
}

Result<void> ByteData::read(std::uint64_t offset, std::span<std::uint8_t> window) const {
  while (!window.empty()) {
    const ssize_t n = pread(fd_, window.data(), window.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed_to("read", path_, std::strerror(errno));
    if (n == 0)
      return failed_to("read", path_,
                       "it ends at byte " + std::to_string(offset) + " now, it had " + std::to_string(n_bytes_) +
                           " bytes when training began");
    window = window.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace castor::train
