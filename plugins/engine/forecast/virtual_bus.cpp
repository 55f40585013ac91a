// SPDX-License-Identifier: Apache-2.0
#include "virtual_bus.h"

#include <algorithm>
#include <cstddef>

#include <castor/plan/stream_share.h>

namespace castor {
namespace {

/// Copies that one of the other way can meet: a layer has about ten.
constexpr std::size_t kMostKept = 64;

}  // namespace

void VirtualBus::Copies::add(double begin_s, double end_s) {
  last_.push_back({begin_s, end_s});
  if (last_.size() > kMostKept) last_.pop_front();
}

double VirtualBus::Copies::seconds_within(double begin_s, double end_s) const {
  double sum_s = 0;
  for (const Copy& copy : last_) sum_s += std::max(0.0, std::min(end_s, copy.end_s) - std::max(begin_s, copy.begin_s));
  return sum_s;
}

Event VirtualBus::copy_up(std::uint64_t n_bytes) {
  const double alone_s = static_cast<double>(n_bytes) * costs_.h2d, begin_s = up_.next_s();
  double seconds = alone_s;
  if (team_ != nullptr) {
    seconds += (kCopyUpSlowdown - 1) * std::clamp(team_->busy_until_s() - begin_s, 0.0, alone_s);
    ups_.add(begin_s, begin_s + seconds);
    seconds += (kCopyUpBesideDown - 1) * downs_.seconds_within(begin_s, begin_s + seconds);
  }
  up_.run(seconds);
  return up_.record();
}

Event VirtualBus::copy_down(std::uint64_t n_bytes) {
  const double begin_s = down_.next_s(), end_s = begin_s + static_cast<double>(n_bytes) * costs_.d2h;
  if (team_ != nullptr) {
    downs_.add(begin_s, end_s);
    if (const double met_s = ups_.seconds_within(begin_s, end_s); met_s > 0) up_.run((kCopyUpBesideDown - 1) * met_s);
  }
  down_.run(end_s - begin_s);
  return down_.record();
}

}  // namespace castor
