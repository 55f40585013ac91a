// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/stream_forecast.h>

#include <algorithm>
#include <map>
#include <utility>

namespace castor {
namespace {

/// Rate of an update on a GPU, states read and written, and the thread's time for it. Neither decides a plan.
constexpr double kUpdateBytesPerS = 1e12, kThreadSeconds = 20e-6;

class Forecast {
 public:
  Forecast(const AccessTrace& trace, std::span<const UpdatedChunk> streamed, bool at_next_use);

  AccessTrace make();

 private:
  void note_first_uses();
  void add_as_it_was(std::uint64_t position);
  void add_update(const UpdatedChunk& chunk, std::uint64_t position);
  bool could_be_taken_back(std::uint64_t position) const { return position < norm_; }
  void add_all(Moment moment, std::uint64_t position, std::span<const Need> needs);

  const AccessTrace& trace_;
  const bool at_next_use_;
  std::uint64_t norm_ = 0;  ///< position where the thread waits for it; updates before it may be taken back
  std::map<std::uint32_t, const UpdatedChunk*> by_number_;
  std::map<ChunkId, const UpdatedChunk*> by_gradient_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> updates_;            ///< by number: where they are
  std::map<std::uint64_t, std::vector<const UpdatedChunk*>> before_uses_;  ///< by position of the first use
  AccessTrace made_;
  MomentSeconds seconds_;
};

Forecast::Forecast(const AccessTrace& trace, std::span<const UpdatedChunk> streamed, bool at_next_use)
    : trace_(trace), at_next_use_(at_next_use) {
  for (const UpdatedChunk& chunk : streamed) {
    by_number_[chunk.number] = &chunk;
    for (const ChunkId gradient : chunk.gradients) by_gradient_[gradient] = &chunk;
  }
  for (std::uint64_t position = 0; position < trace.n_moments(); ++position) {
    const Moment& moment = trace.moment(position);
    if (moment.kind == MomentKind::update && by_number_.contains(moment.id)) updates_[moment.id].push_back(position);
    if (trace.joins(position)) norm_ = position;
  }
  if (at_next_use) note_first_uses();
}

/// Notes by chunk number, the order in which a unit makes the updates that its chunks wait for.
void Forecast::note_first_uses() {
  for (const auto& [number, chunk] : by_number_)
    for (std::uint64_t position = 0; position < trace_.n_moments(); ++position) {
      const auto needs = trace_.needs(position);
      const bool uses =
          of_unit(trace_.moment(position).kind) &&
          std::any_of(needs.begin(), needs.end(), [id = chunk->payload](const Need& need) { return need.chunk == id; });
      if (!uses) continue;
      before_uses_[position].push_back(chunk);
      break;
    }
}

AccessTrace Forecast::make() {
  for (std::uint64_t position = 0; position < trace_.n_moments(); ++position) {
    if (const auto found = before_uses_.find(position); found != before_uses_.end())
      for (const UpdatedChunk* const chunk : found->second)
        for (const std::uint64_t update : updates_[chunk->number]) add_update(*chunk, update);
    const Moment& moment = trace_.moment(position);
    const auto streamed = moment.kind == MomentKind::update ? by_number_.find(moment.id) : by_number_.end();
    if (streamed == by_number_.end())
      add_as_it_was(position);
    else if (!at_next_use_)
      add_update(*streamed->second, position);
  }
  made_.set_seconds(std::move(seconds_));
  return std::move(made_);
}

/// Copies a moment unchanged, except that gradients of streamed chunks stay on the device.
void Forecast::add_as_it_was(std::uint64_t position) {
  std::vector<Need> needs(trace_.needs(position).begin(), trace_.needs(position).end());
  for (Need& need : needs)
    if (by_gradient_.contains(need.chunk)) need.tier = Tier::device;
  add_all(trace_.moment(position), position, needs);
  for (const Need& need : needs) {
    const std::uint64_t n_bytes = trace_.arriving_bytes(position, need.chunk);
    if (n_bytes > 0 && !by_gradient_.contains(need.chunk)) made_.add_arrival(need.chunk, n_bytes);
  }
  seconds_.compute.push_back(trace_.seconds().compute[position]);
  seconds_.thread.push_back(trace_.seconds().thread[position]);
}

void Forecast::add_update(const UpdatedChunk& chunk, std::uint64_t position) {
  const bool first = position == updates_[chunk.number].front();
  const bool overwrites = chunk.overwrites && first && could_be_taken_back(position);
  std::vector<Need> needs(trace_.needs(position).begin(), trace_.needs(position).end());
  for (Need& need : needs) {
    need.tier = Tier::device;
    if (overwrites && need.chunk == chunk.payload) need.access = Access::overwrite;
  }
  add_all({MomentKind::update, chunk.number, false}, position, needs);
  seconds_.compute.push_back(2 * static_cast<double>(chunk.tile_bytes) / kUpdateBytesPerS);
  seconds_.thread.push_back(kThreadSeconds);
}

void Forecast::add_all(Moment moment, std::uint64_t position, std::span<const Need> needs) {
  made_.add(moment, needs);
  for (const Need& need : needs)
    if (trace_.dropped(position, need.chunk)) made_.drop(need.chunk);
}

}  // namespace

AccessTrace with_streams(const AccessTrace& trace, std::span<const UpdatedChunk> streamed, bool at_next_use) {
  return Forecast(trace, streamed, at_next_use).make();
}

}  // namespace castor
