// SPDX-License-Identifier: Apache-2.0
#include "file_room.h"

#include <algorithm>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>

namespace castor {
namespace {

constexpr std::uint64_t kLeastStepBytes = 64 * kMiB;
constexpr std::uint64_t kMostStepBytes = kGiB;
constexpr std::uint64_t kStepOfSize = 8;     // a step is this part of the file
constexpr std::uint64_t kStepsLeftFree = 8;  // with fewer free the drive is nearly full

}  // namespace

std::uint64_t plan_growth(std::uint64_t from_bytes, std::uint64_t needed_end_bytes, std::uint64_t free_bytes,
                          std::uint64_t most_ahead_bytes) {
  const auto step = std::clamp(from_bytes / kStepOfSize, kLeastStepBytes, kMostStepBytes);
  const auto needed = needed_end_bytes - from_bytes;
  if (needed >= step || needed > free_bytes || (free_bytes - needed) / kStepsLeftFree < step) return needed_end_bytes;
  return needed_end_bytes + std::min(step - needed, most_ahead_bytes);
}

void FileRoom::start_at(std::uint64_t end_bytes) {
  const std::lock_guard lock(mutex_);
  end_bytes_ = std::max(end_bytes_, end_bytes);
}

std::uint64_t FileRoom::end_bytes() const {
  const std::lock_guard lock(mutex_);
  return end_bytes_;
}

Result<void> FileRoom::set_aside(std::uint64_t end_bytes) {
  auto done = file_.reserve(end_bytes_, end_bytes - end_bytes_);
  if (done.ok())
    end_bytes_ = end_bytes;
  else
    (void)file_.cut(end_bytes_);  // the part that was set aside before the room ran out
  return done;
}

Result<void> FileRoom::grow(std::uint64_t needed_end_bytes, std::uint64_t most_ahead_bytes) {
  const auto free = available_bytes(file_.folder());
  const auto end = plan_growth(end_bytes_, needed_end_bytes, free.ok() ? *free : 0, most_ahead_bytes);
  if (end > needed_end_bytes && set_aside(end).ok()) return {};
  return set_aside(needed_end_bytes);
}

Result<void> FileRoom::back(const Extent& extent, bool is_new, std::uint64_t most_ahead_bytes) {
  const std::lock_guard lock(mutex_);
  const auto needed_end = extent.offset_bytes + extent.n_bytes;
  if (needed_end > end_bytes_) CASTOR_TRY(grow(needed_end, most_ahead_bytes));
  return is_new ? Result<void>() : file_.reserve(extent.offset_bytes, extent.n_bytes);
}

void FileRoom::cut(std::uint64_t end_bytes) {
  const std::lock_guard lock(mutex_);
  if (end_bytes_ <= end_bytes) return;
  end_bytes_ = end_bytes;
  // Where this fails the file keeps the room until it is closed; setting it aside again does no harm.
  (void)file_.cut(end_bytes);
}

}  // namespace castor
