// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "engine_rooms.h"

namespace castor {

/// Decides the homes of the optimizer states, at the start and again after the device memory beside chunks has been
/// measured, and has the optimizer adopt them.
///
/// Threads: one at a time.
class Placer {
 public:
  /// Borrowed.
  explicit Placer(EngineRooms& rooms);

  /// Places for the first step; on a GPU for a warm-up with only the working set on the device. Errors: those of
  /// plan_placement.
  [[nodiscard]] Result<void> place_first();
  /// After the first micro-batch of the warm-up, where its gradients had room below the device but sums of several have
  /// not: as place_in_measured_room, beside these gradients. Errors: as place_first.
  [[nodiscard]] Result<void> place_for_sums();
  /// After a step that does not count. In the warm-up its micro-batches may have been smaller than those to come, so
  /// this places as place_first where place_for_sums did otherwise. Errors: as place_first.
  [[nodiscard]] Result<void> repeat_warm_up();
  /// After the warm-up: gives the chunks the room that activations and workspaces leave, and places again. Errors: as
  /// place_first.
  [[nodiscard]] Result<void> place_in_measured_room();
  /// The placements with shares of the states streamed, and the speculative updates as hold_speculation fixed them: a
  /// copy that any thread may call. Requires: place_in_measured_room was called. Errors of a call: as place_first.
  std::function<Result<StatePlacement>(double share)> placements_by_share() const;
  /// The placement with this share has been adopted.
  void adopted_streams(double share) { request_.stream_fraction = share; }
  /// The placement in force, with speculative updates as far as the host has room. Requires: place_first was called,
  /// and placements do not speculate from the start (EngineRooms::pinner). Errors: as place_first.
  [[nodiscard]] Result<StatePlacement> with_speculation() const;
  /// That placement, whose speculative updates take `n_bytes`, has been adopted.
  void adopted_speculation(std::uint64_t n_bytes) { request_.speculation_bytes = n_bytes; }
  /// Fixes which updates may be speculative to those of the placement in force, so that iterations with other shares
  /// can be forecast.
  void hold_speculation();

  /// In the warm-up: raises the chunks' part of the device so that it has room for the largest unit and an activation
  /// of `n_bytes` at once, if the budget allows that.
  void make_room_for_activation(std::uint64_t n_bytes);
  /// True where the chunks' part of the device has that room.
  bool has_room_for_activation(std::uint64_t n_bytes) const;

  double stream_share() const { return request_.stream_fraction; }
  /// Bytes of states that the host updates under the placement in force.
  std::uint64_t host_state_bytes() const;

 private:
  /// Sums of gradients in the warm-up.
  enum class Sums : std::uint8_t {
    have_room,
    wait,        ///< for the room that the first micro-batch measures
    are_placed,  ///< in that room
  };

  PlacementRequest make_request() const;
  std::uint64_t n_bytes_on_nvme(const StatePlacement& placement, std::size_t n_chunks) const;
  IndexedVector<PayloadId, ChunkDemand> demands(bool adds_up) const;
  std::uint64_t speculation_bytes() const;
  Result<void> place_beside(std::uint64_t non_model_bytes);
  Result<void> place();
  static bool has_room_for_all_gradients(const PlacementRequest& request);
  void give_room(std::uint64_t n_bytes);
  std::uint64_t padding_bytes(std::uint64_t n_bytes) const;

  EngineRooms& rooms_;
  const LargestUnit largest_unit_;
  PlacementRequest request_;      ///< of the placement in force; on a GPU from the end of the warm-up on
  std::uint64_t kept_bytes_ = 0;  ///< of activations in chunks that the placement leaves room for
  Sums sums_ = Sums::have_room;
};

}  // namespace castor
