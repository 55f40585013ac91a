// SPDX-License-Identifier: Apache-2.0
#include "stripe_rates.h"

#include <algorithm>
#include <cmath>

namespace castor {
namespace {

constexpr double kOldWeight = 0.75;
constexpr double kLeastRate = 1e-9;  // of a volume that moved nothing, a byte per second: 0 means "unknown"

double mean_of_known(std::span<const double> rates) {
  double sum = 0, n_known = 0;
  for (const double rate : rates) {
    sum += rate;
    if (rate > 0) n_known += 1;
  }
  return n_known > 0 ? sum / n_known : 1;
}

/// Makes `shares` add up to 1 with none below `least`: shares that fall below become `least`, the others split the
/// rest.
void normalise(std::span<double> shares, double least) {
  for (bool again = true; again;) {
    double fixed = 0, open = 0;
    for (const double share : shares) (share == least ? fixed : open) += share;
    again = false;
    for (double& share : shares) {
      if (share == least) continue;
      share *= (1 - fixed) / open;
      if (share < least) again = true;
    }
    for (double& share : shares) share = std::max(share, least);
  }
}

}  // namespace

StripeRates::StripeRates(std::size_t n_volumes) : n_volumes_(n_volumes), volumes_(new Volume[n_volumes]) {}

void StripeRates::count_busy(Volume& volume, std::uint64_t now_ns) {
  if (volume.n_in_flight == 0 || now_ns <= volume.busy_since_ns) return;
  volume.busy_ns += now_ns - volume.busy_since_ns;
  volume.busy_since_ns = now_ns;
}

void StripeRates::take_sample(Volume& volume) {
  if (volume.n_bytes < kSampleBytes && volume.busy_ns < kSampleNs) return;
  const double busy_ns = static_cast<double>(std::max<std::uint64_t>(volume.busy_ns, 1));
  const double sample = std::max(static_cast<double>(volume.n_bytes) / busy_ns, kLeastRate);
  const double n_samples = std::max(static_cast<double>(volume.n_bytes) / static_cast<double>(kSampleBytes),
                                    busy_ns / static_cast<double>(kSampleNs));
  const double old_weight = volume.rate == 0 ? 0 : std::pow(kOldWeight, n_samples);
  volume.rate = old_weight * volume.rate + (1 - old_weight) * sample;
  volume.n_bytes = 0;
  volume.busy_ns = 0;
}

void StripeRates::started(std::size_t index, std::uint64_t now_ns) noexcept {
  auto& volume = volumes_[index];
  const std::lock_guard lock(volume.mutex);
  if (volume.n_in_flight++ == 0) volume.busy_since_ns = std::max(volume.busy_since_ns, now_ns);
}

void StripeRates::ended(std::size_t index, std::uint64_t n_bytes, std::uint64_t now_ns) noexcept {
  auto& volume = volumes_[index];
  const std::lock_guard lock(volume.mutex);
  if (volume.n_in_flight == 0) return;
  count_busy(volume, now_ns);
  --volume.n_in_flight;
  volume.n_bytes += n_bytes;
  take_sample(volume);
}

double StripeRates::rate_at(Volume& volume, std::uint64_t now_ns) {
  const std::lock_guard lock(volume.mutex);
  count_busy(volume, now_ns);
  take_sample(volume);
  return volume.rate;
}

void StripeRates::shares(std::uint64_t now_ns, std::span<double> shares) const {
  for (std::size_t v = 0; v < n_volumes_; ++v) shares[v] = rate_at(volumes_[v], now_ns);
  const double mean = mean_of_known(shares);
  double sum = 0;
  for (double& share : shares) sum += share = share > 0 ? share : mean;
  for (double& share : shares) share /= sum;
  normalise(shares, std::min(kLeastShare, 0.5 / static_cast<double>(n_volumes_)));
}

}  // namespace castor
