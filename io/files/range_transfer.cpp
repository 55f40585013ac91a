// SPDX-License-Identifier: Apache-2.0
#include "range_transfer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <castor/memory/bytes.h>

#include "engine/io_error.h"
#include "size_signal.h"

namespace castor {
namespace {

constexpr std::uint64_t kMaxCallBytes = kGiB;

std::int64_t call(IoOp op, int fd, std::byte* data, std::uint64_t n_bytes, std::uint64_t offset_bytes) {
  const auto length = std::min(n_bytes, kMaxCallBytes);
  const auto offset = static_cast<off_t>(offset_bytes);
  const auto answer = op == IoOp::read ? ::pread(fd, data, length, offset) : ::pwrite(fd, data, length, offset);
  return answer < 0 ? -errno : answer;
}

}  // namespace

/// The bytes from here that move without the bounce page.
std::uint64_t RangeTransfer::straight_bytes() const {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data) + done_bytes_;
  if (here() % sector_bytes_ != 0 || address % file_.memory_align_bytes() != 0) return 0;
  return left_bytes() / sector_bytes_ * sector_bytes_;
}

/// The bytes from here that go through the bounce page next: up to the end of the sector where the rest can then go
/// straight, else as many as the page takes.
std::uint64_t RangeTransfer::bounced_bytes() const {
  const auto in_sector = here() % sector_bytes_;
  const auto to_sector_end = sector_bytes_ - in_sector;
  const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data) + done_bytes_;
  const bool straight_then = in_sector != 0 && (address + to_sector_end) % file_.memory_align_bytes() == 0;
  return std::min(left_bytes(), straight_then ? to_sector_end : kBufferAlignBytes - in_sector);
}

Result<void> RangeTransfer::run() {
  constexpr std::uint64_t kFarthest = std::numeric_limits<std::int64_t>::max();
  if (offset_bytes_ > kFarthest || bytes_.n_bytes > kFarthest - offset_bytes_) return stopped({0, EFBIG});
  const SizeSignalBlock no_signal;
  while (left_bytes() > 0) {
    if (const auto straight = straight_bytes(); straight > 0)
      CASTOR_TRY(move_straight(straight));
    else
      CASTOR_TRY(move_bounced(bounced_bytes()));
  }
  return {};
}

Result<void> RangeTransfer::stopped(const Moved& moved) const {
  const auto request =
      op_ == IoOp::read ? file_.read_request(offset_bytes_, bytes_) : file_.write_request(offset_bytes_, bytes_);
  const auto done_bytes = done_bytes_ + moved.n_bytes;
  return moved.error_number == 0 ? stalled_error(request, done_bytes)
                                 : request_error(request, done_bytes, moved.error_number);
}

/// Moves `bytes`, or as many as the file has: a read stops at its end. A direct read that ends inside a sector has
/// reached the file's end; it could not continue at an unaligned offset anyway.
RangeTransfer::Moved RangeTransfer::move_all(IoOp op, std::uint64_t offset_bytes, BufferView bytes) const {
  Moved moved;
  while (moved.n_bytes < bytes.n_bytes && moved.n_bytes % sector_bytes_ == 0) {
    const auto answer =
        call(op, file_.fd(), bytes.data + moved.n_bytes, bytes.n_bytes - moved.n_bytes, offset_bytes + moved.n_bytes);
    if (answer == -EINTR) continue;
    if (answer < 0) moved.error_number = static_cast<int>(-answer);
    if (answer <= 0) break;
    moved.n_bytes += static_cast<std::uint64_t>(answer);
  }
  return moved;
}

Result<void> RangeTransfer::move_straight(std::uint64_t n_bytes) {
  const auto moved = move_all(op_, here(), next(n_bytes));
  if (moved.n_bytes != n_bytes) return stopped(moved);
  done_bytes_ += n_bytes;
  return {};
}

Result<void> RangeTransfer::take_bounce_page() {
  if (page_) return {};
  CASTOR_ASSIGN(page_, Buffer::allocate(memory_, kBufferAlignBytes));
  return {};
}

Result<void> RangeTransfer::move_bounced(std::uint64_t n_bytes) {
  CASTOR_TRY(take_bounce_page());
  const auto ahead_bytes = here() % sector_bytes_;
  const auto window = page_.view().part(0, align_up(ahead_bytes + n_bytes, sector_bytes_));
  CASTOR_TRY(op_ == IoOp::read ? read_bounced(window, ahead_bytes, next(n_bytes))
                               : write_bounced(window, ahead_bytes, next(n_bytes)));
  done_bytes_ += n_bytes;
  return {};
}

Result<void> RangeTransfer::read_bounced(BufferView window, std::uint64_t ahead_bytes, BufferView wanted) {
  const auto moved = move_all(IoOp::read, here() - ahead_bytes, window);
  if (moved.n_bytes < ahead_bytes + wanted.n_bytes)
    return stopped({moved.n_bytes - std::min(moved.n_bytes, ahead_bytes), moved.error_number});
  std::memcpy(wanted.data, window.data + ahead_bytes, wanted.n_bytes);
  return {};
}

/// Reads a sector of the file; zeros beyond its end.
Result<void> RangeTransfer::fetch_sector(BufferView sector, std::uint64_t offset_bytes) {
  const auto moved = move_all(IoOp::read, offset_bytes, sector);
  if (moved.error_number != 0) return request_error(file_.read_request(offset_bytes, sector), 0, moved.error_number);
  std::memset(sector.data + moved.n_bytes, 0, sector.n_bytes - moved.n_bytes);
  return {};
}

/// Reads the first and the last sector of the window first where `given` covers them only in part. Bytes that the last
/// sector adds beyond the end of the file are cut off again.
Result<void> RangeTransfer::write_bounced(BufferView window, std::uint64_t ahead_bytes, BufferView given) {
  const auto begin = here() - ahead_bytes;
  const auto end = here() + given.n_bytes;
  CASTOR_ASSIGN(const auto size, file_.size_bytes());
  if (ahead_bytes > 0) CASTOR_TRY(fetch_sector(window.part(0, sector_bytes_), begin));
  const auto last = window.n_bytes - sector_bytes_;
  if (end % sector_bytes_ != 0 && (last > 0 || ahead_bytes == 0))
    CASTOR_TRY(fetch_sector(window.part(last, sector_bytes_), begin + last));
  std::memcpy(window.data + ahead_bytes, given.data, given.n_bytes);
  const auto moved = move_all(IoOp::write, begin, window);
  if (moved.n_bytes != window.n_bytes)
    return stopped({moved.n_bytes - std::min(moved.n_bytes, ahead_bytes), moved.error_number});
  if (begin + window.n_bytes > std::max(size, end)) return file_.cut(std::max(size, end));
  return {};
}

}  // namespace castor
