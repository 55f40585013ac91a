// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include <castor/memory/event.h>
#include <castor/plan/link_costs.h>
#include <castor/schedule/virtual_links.h>
#include <castor/schedule/virtual_team.h>

namespace castor {

/// The two ways between a device and its host. Beside a GPU they share the host's memory with each other and with the
/// team's updates: a copy up takes longer, as far as either runs at the same time. A copy down does not.
class VirtualBus {
 public:
  /// Borrowed. `team`: whose updates copies meet; null where device and host are one, and nothing slows a copy.
  VirtualBus(VirtualClock& clock, const LinkCosts& costs, const VirtualTeam* team)
      : costs_(costs), team_(team), up_(clock, 0), down_(clock, 0) {}

  VirtualStream& up() { return up_; }
  VirtualStream& down() { return down_; }

  Event copy_up(std::uint64_t n_bytes);
  /// The events of copies up that it meets are given already: what they lose the next one waits for.
  Event copy_down(std::uint64_t n_bytes);

 private:
  /// When the last copies of one way run.
  class Copies {
   public:
    void add(double begin_s, double end_s);
    double seconds_within(double begin_s, double end_s) const;

   private:
    struct Copy {
      double begin_s, end_s;
    };
    std::deque<Copy> last_;
  };

  const LinkCosts costs_;
  const VirtualTeam* const team_;
  VirtualStream up_, down_;
  Copies ups_, downs_;
};

}  // namespace castor
