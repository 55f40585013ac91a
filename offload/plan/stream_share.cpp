// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/stream_share.h>

#include <algorithm>

#include <castor/plan/step_bound.h>

namespace castor {
namespace {

/// Time that the team loses while the states of one streamed parameter cross the bus, over its time to update one: the
/// copies move 12 bytes each way where the team moves 28.
constexpr double kLostToTheBus = (kLostPerByteUp + kLostPerByteDown) * 12 / 28;

constexpr int kSharesTried = 64;
constexpr double kLeastGain = 0.1;
/// Share of the iteration from which on a busy team delays compute: the weights that are updated last are needed first.
constexpr double kBusyTeam = 0.5;

/// Time of the team for the updates of all but `share`, over its time for all of them alone.
double host_seconds(double share) { return 1 - share * (1 - kLostToTheBus); }

/// Time until every state is updated.
double updated_s(const UpdateLoad& load, double share) {
  const double host_s = load.host_s * host_seconds(share);
  const double streams_s = share * std::max(load.stream_h2d_s, load.stream_d2h_s);
  const double links_s = std::max({load.h2d_s + share * load.stream_h2d_s, load.d2h_s + share * load.stream_d2h_s,
                                   share > 0 ? load.streams_from_s + streams_s : 0});
  return std::max(host_s, links_s);
}

double slowest_s(const UpdateLoad& load, double share) { return std::max(updated_s(load, share), load.window_s); }

using SecondsOf = double(const UpdateLoad&, double share);

/// True if `share` leaves at most nine tenths of the `seconds` that there are without streams.
bool gains(SecondsOf& seconds, const UpdateLoad& load, double share) {
  return seconds(load, share) <= (1 - kLeastGain) * seconds(load, 0);
}

/// The smallest share with the fewest `seconds`.
double best_share(SecondsOf& seconds, const UpdateLoad& load) {
  double best = 0;
  for (int tried = 1; tried <= kSharesTried; ++tried)
    if (const double share = static_cast<double>(tried) / kSharesTried; seconds(load, share) < seconds(load, best))
      best = share;
  return best;
}

}  // namespace

UpdateLoad update_load(const AccessTrace& trace, const MomentSeconds& seconds, const StepEstimate& estimate,
                       const LinkCosts& costs, std::uint64_t state_bytes) {
  const PassSeconds passes = pass_seconds(trace, seconds);
  const bool late = passes.wait_for_norm();
  const double part = late ? 0.5 : 1;
  const LinkSeconds& links = estimate.link_s;
  UpdateLoad load;
  load.host_s = estimate.beside_s;
  load.window_s = std::max({passes.forward + (late ? 0 : passes.backward), links[kNvmeRead], links[kNvmeWrite],
                            costs.nvme_share * (links[kNvmeRead] + links[kNvmeWrite])});
  load.h2d_s = part * links[kH2d];
  load.d2h_s = part * links[kD2h];
  load.streams_from_s = passes.measures_norm && !late ? passes.backward : 0;
  load.stream_h2d_s = static_cast<double>(state_bytes) * costs.h2d * kCopyUpSlowdown;
  load.stream_d2h_s = static_cast<double>(state_bytes) * costs.d2h;
  return load;
}

double stream_share(const UpdateLoad& load, double step_s) {
  const double hides_most = best_share(slowest_s, load), ends_first = best_share(updated_s, load);
  if (gains(slowest_s, load, hides_most)) return hides_most;
  const bool in_the_way = step_s > 0 && load.host_s >= kBusyTeam * step_s;
  return in_the_way && gains(updated_s, load, ends_first) ? ends_first : 0;
}

}  // namespace castor
