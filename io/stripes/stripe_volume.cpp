// SPDX-License-Identifier: Apache-2.0
#include "stripe_volume.h"

#include <sys/stat.h>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

constexpr std::size_t kKeysShown = 3;

std::uint64_t device_of(int fd) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 ? facts.st_dev : 0;
}

}  // namespace

StripeVolume::StripeVolume(DirectFile opened, std::uint64_t limit_bytes)
    : file_(std::move(opened)), device_(device_of(file_.fd())), extents_(limit_bytes), room_(file_) {}

Result<StripeVolume::Taken> StripeVolume::allocate(std::uint64_t key, std::uint64_t n_bytes) {
  const auto end_before = extents_.end_bytes();
  CASTOR_ASSIGN(const Extent extent, extents_.allocate(n_bytes));
  bytes_of_key_[key] += extent.n_bytes;
  return Taken{extent, extent.offset_bytes >= end_before};
}

Result<void> StripeVolume::claim(std::uint64_t key, const Extent& extent) {
  CASTOR_ASSIGN(const auto size, file_.size_bytes());
  if (extent.n_bytes > size || extent.offset_bytes > size - extent.n_bytes)
    return Error{ErrorKind::io, file_.path() + " ends after " + std::to_string(size) + " bytes and should have " +
                                    std::to_string(extent.n_bytes) + " of key " + std::to_string(key) + " at offset " +
                                    std::to_string(extent.offset_bytes) + "; bring back the whole file"};
  if (auto claimed = extents_.claim(extent); !claimed.ok())
    return Error{ErrorKind::io, file_.path() + ", key " + std::to_string(key) + ": " + claimed.error().message};
  bytes_of_key_[key] += extent.n_bytes;
  return {};
}

void StripeVolume::unclaim(std::uint64_t key, const Extent& extent) {
  const auto held = bytes_of_key_.find(key);
  if (held == bytes_of_key_.end() || held->second < extent.n_bytes)
    throw ContractViolation("key " + std::to_string(key) + " does not hold " + std::to_string(extent.n_bytes) +
                            " bytes of " + file_.path());
  extents_.free(extent);
  if ((held->second -= extent.n_bytes) == 0) bytes_of_key_.erase(held);
}

void StripeVolume::free(std::uint64_t key, const Extent& extent) {
  unclaim(key, extent);
  room_.cut(extents_.end_bytes());
}

void StripeVolume::drop_unclaimed() {
  for (const auto& gap : extents_.gaps()) punch(gap);
  (void)file_.cut(extents_.end_bytes());
}

std::string StripeVolume::held_text() const {
  if (bytes_of_key_.empty()) return "holds nothing";
  std::string keys;
  std::size_t n_shown = 0;
  for (auto at = bytes_of_key_.begin(); at != bytes_of_key_.end() && n_shown < kKeysShown; ++at, ++n_shown)
    keys += (n_shown > 0 ? ", " : "") + std::to_string(at->first);
  const auto n_keys = bytes_of_key_.size();
  return "holds parts of " + std::to_string(n_keys) + (n_keys == 1 ? " key (" : " keys (") + keys +
         (n_keys > kKeysShown ? ", …; " : "; ") + format_bytes(extents_.allocated_bytes()) + ")";
}

}  // namespace castor
