// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace castor {

/// The speed of each volume of a store, measured while it works, and the share of the bytes that it should get.
///
/// A volume is busy while at least one transfer is in flight on it: its busy time is the union of their intervals, so
/// that neither a deep queue nor a pause counts against it. Every 64 MiB or 100 ms of busy time give a sample, bytes by
/// busy time, and the rate moves a quarter of the way from its old value to the sample; a sample that spans n times
/// that much (a transfer that hung) counts as n samples. So after n samples 0.75^n of the rate is old: 10 % after 8,
/// which is half a GiB, or 0.8 s of a slow drive.
///
/// The share of a volume is its rate divided by the sum of all. Volumes without a sample count like the mean of the
/// others, so that all begin equal. No share is below 2 %: a volume that gets nothing could not show that it has
/// recovered.
///
/// Threads: any; one short lock per volume. Nothing allocates.
class StripeRates {
 public:
  static constexpr std::uint64_t kSampleBytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kSampleNs = 100'000'000;
  static constexpr double kLeastShare = 0.02;

  explicit StripeRates(std::size_t n_volumes);

  /// A transfer of `volume` has started. Times are those of one clock, in any order among threads.
  void started(std::size_t volume, std::uint64_t now_ns) noexcept;
  /// A transfer has ended after `n_bytes` (0 where it failed). An end without a start is not counted.
  void ended(std::size_t volume, std::uint64_t n_bytes, std::uint64_t now_ns) noexcept;

  /// Fills `shares` (one per volume); they add up to 1. The time that unfinished transfers have taken so far counts, so
  /// that a volume whose transfers hang loses its share. Cost: O(volumes²) at worst.
  void shares(std::uint64_t now_ns, std::span<double> shares) const;

 private:
  struct alignas(64) Volume {
    std::mutex mutex;
    std::uint64_t n_in_flight = 0;
    std::uint64_t busy_since_ns = 0;  // busy_ns has counted up to here
    std::uint64_t busy_ns = 0;        // since the last sample, as bytes are
    std::uint64_t n_bytes = 0;
    double rate = 0;  // bytes per ns; 0 = no sample yet
  };
  static void count_busy(Volume& volume, std::uint64_t now_ns);
  static void take_sample(Volume& volume);
  static double rate_at(Volume& volume, std::uint64_t now_ns);

  std::size_t n_volumes_;
  std::unique_ptr<Volume[]> volumes_;
};

}  // namespace castor
