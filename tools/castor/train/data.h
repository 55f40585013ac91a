// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <castor/memory/result.h>

namespace castor::train {

/// 64 bits that depend on the key alone: the same for the same (seed, step, sample) on every machine, in any order.
/// Source: the finaliser of SplitMix64 (Steele, Lea and Flood 2014), applied once per part of the key.
std::uint64_t counter_random(std::uint64_t seed, std::uint64_t step, std::uint64_t sample);

/// A number below `n` from 64 random bits: the high half of their product. Requires: n > 0.
std::uint64_t scale_random(std::uint64_t random, std::uint64_t n);

/// A file whose bytes are tokens 0 to 255, read a window at a time. A window of `seq` tokens and its targets are
/// `seq` + 1 bytes.
///
/// Threads: one at a time.
class ByteData {
 public:
  /// Errors: io if the file is missing, no ordinary file, empty, or shorter than one window.
  static Result<ByteData> open(const std::filesystem::path& path, std::int64_t seq);
  ByteData(ByteData&& other) noexcept;
  ByteData& operator=(ByteData&&) = delete;
  ~ByteData();

  std::uint64_t n_bytes() const { return n_bytes_; }
  /// The offset of the window of (seed, step, sample): any place from which a whole window can be read.
  std::uint64_t offset(std::uint64_t seed, std::uint64_t step, std::uint64_t sample) const;
  /// Fills `window` (seq + 1 bytes) from `offset` on. Errors: io, also if the file has become shorter.
  Result<void> read(std::uint64_t offset, std::span<std::uint8_t> window) const;

 private:
  ByteData(int fd, std::string path, std::uint64_t n_bytes, std::uint64_t window_bytes)
      : fd_(fd), path_(std::move(path)), n_bytes_(n_bytes), window_bytes_(window_bytes) {}
  int fd_;
  std::string path_;
  std::uint64_t n_bytes_;
  std::uint64_t window_bytes_;
};

}  // namespace castor::train
