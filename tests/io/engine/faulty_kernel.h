// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <castor/memory/bytes.h>

#include "../../support/test_buffer.h"
#include "threads/threads_engine.h"

namespace castor::test {

/// A wrong answer of a scripted kernel to one call.
struct CallFault {
  enum class Kind {
    none,
    fail,        ///< with error_number, once
    fail_ever,   ///< with error_number, as do later calls for the same bytes until the engine gives up
    shorten,     ///< moves one sector less than was asked for
    nothing,     ///< moves no byte and answers 0
    late,        ///< waits for release()
    outlast,     ///< takes longer than the timeout and is interrupted then
    flip_read,   ///< flips one bit of the bytes read
    flip_write,  ///< flips one bit of the bytes written
    lose_write,  ///< reports a write as done and does not make it
    stale_read,  ///< reads the bytes from before the last write
  };
  Kind kind = Kind::none;
  int error_number = 0;
  std::chrono::milliseconds timeout{0};  ///< for outlast
};

/// A kernel whose n-th call fails. Calls are counted from 1, including those that continue an earlier one; faults of
/// reads count reads alone, those of writes count writes.
///
/// Threads: any.
class FaultyKernel {
 public:
  /// Short transfers end at whole sectors of `sector_bytes`.
  FaultyKernel(std::uint64_t nth, CallFault fault, std::uint64_t sector_bytes)
      : nth_(nth), fault_(fault), sector_bytes_(sector_bytes) {}

  bool reached() const {
    const std::lock_guard lock(mutex_);
    return n_calls_ >= nth_;
  }
  /// Whether a call waits for release().
  bool holds() const {
    const std::lock_guard lock(mutex_);
    return holding_;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  /// Ends all faults.
  void heal() {
    const std::lock_guard lock(mutex_);
    healed_ = true;
  }

  std::int64_t call(const TransferPart& part) {
    if (fault_.kind == Kind::stale_read && part.op == IoOp::write) remember(part);
    return is_hit(part) ? call_wrongly(part) : call_kernel(part);
  }

 private:
  using Kind = CallFault::Kind;
  using Place = std::tuple<IoOp, int, std::uint64_t>;
  static constexpr std::size_t kFlipped = 7;  // near the beginning, since the end may be padding

  bool counts(const TransferPart& part) const {
    switch (fault_.kind) {
      case Kind::flip_read:
      case Kind::stale_read: return part.op == IoOp::read;
      case Kind::flip_write:
      case Kind::lose_write: return part.op == IoOp::write;
      default: return true;
    }
  }

  bool is_hit(const TransferPart& part) {
    const Place place{part.op, part.fd, part.offset_bytes};
    const std::lock_guard lock(mutex_);
    if (!counts(part) || healed_) return false;
    const bool hit = ++n_calls_ == nth_;
    if (hit) hit_ = place;
    return hit || (fault_.kind == Kind::fail_ever && hit_ == place && ++n_more_ <= Transfer::kMaxWaits);
  }

  std::int64_t call_wrongly(TransferPart part) {
    switch (fault_.kind) {
      case Kind::fail:
      case Kind::fail_ever: return -fault_.error_number;
      case Kind::shorten:
        if (part.n_bytes > sector_bytes_) part.n_bytes -= sector_bytes_;
        return call_kernel(part);
      case Kind::nothing: return 0;
      case Kind::late: wait_for_release(); return call_kernel(part);
      case Kind::outlast: std::this_thread::sleep_for(2 * fault_.timeout); return -EINTR;
      case Kind::flip_read: return flip_read(part);
      case Kind::flip_write: return flip_write(part);
      case Kind::lose_write: return static_cast<std::int64_t>(part.n_bytes);
      case Kind::stale_read: return read_stale(part);
      case Kind::none: break;
    }
    return call_kernel(part);
  }

  void wait_for_release() {
    std::unique_lock lock(mutex_);
    holding_ = true;
    changed_.wait(lock, [this] { return released_; });
    holding_ = false;
  }

  static std::int64_t flip_read(const TransferPart& part) {
    const auto answer = call_kernel(part);
    part.data[kFlipped] ^= std::byte{0x10};
    return answer;
  }

  static std::int64_t flip_write(TransferPart part) {
    const TestBuffer copy(part.n_bytes);
    std::memcpy(copy.data(), part.data, part.n_bytes);
    copy.data()[kFlipped] ^= std::byte{0x10};
    part.data = copy.data();
    return call_kernel(part);
  }

  /// Keeps the bytes that `part` is about to overwrite.
  void remember(const TransferPart& part) {
    TestBuffer before(part.n_bytes, 0);
    const auto answer = call_kernel({IoOp::read, part.fd, before.data(), part.n_bytes, part.offset_bytes});
    const std::lock_guard lock(mutex_);
    if (answer == static_cast<std::int64_t>(part.n_bytes))
      before_.insert_or_assign({part.fd, part.offset_bytes}, std::move(before));
  }

  std::int64_t read_stale(const TransferPart& part) {
    const auto answer = call_kernel(part);
    const std::lock_guard lock(mutex_);
    const auto found = before_.find({part.fd, part.offset_bytes});
    if (found != before_.end() && found->second.view().n_bytes == part.n_bytes)
      std::memcpy(part.data, found->second.data(), part.n_bytes);
    return answer;
  }

  const std::uint64_t nth_;
  const CallFault fault_;
  const std::uint64_t sector_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t n_calls_ = 0;
  std::optional<Place> hit_;
  int n_more_ = 0;  // calls that failed after the n-th
  std::map<std::pair<int, std::uint64_t>, TestBuffer> before_;
  bool holding_ = false;
  bool released_ = false;
  bool healed_ = false;
};

}  // namespace castor::test
