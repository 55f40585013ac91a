// SPDX-License-Identifier: Apache-2.0
#include "speculation.h"

#include <algorithm>
#include <array>

namespace castor {

/// The speculative update of one chunk.
class Speculation::Attempt final : public UpdateJournal {
 public:
  Attempt(const TileInputs& inputs, PayloadId chunk) : inputs_(inputs), chunk_(chunk) {}

  bool keeps_old() const override { return true; }
  Result<void> begin_tile(TileId tile) override {
    inputs_.undo.save(inputs_.states.state(chunk_, tile));
    if (tile == TileId{}) inputs_.undo.save(inputs_.states.payload(chunk_));
    return {};
  }
  void counted(TensorId tensor) override { counted_.push_back(tensor); }
  void started(TileId tile, const Event& updated) override {
    updates_.push_back(updated);
    inputs_.undo.read_until(inputs_.states.state(chunk_, tile), updated);
    inputs_.undo.read_until(inputs_.states.payload(chunk_), updated);
  }
  std::shared_ptr<std::atomic<bool>> cancelled() const override { return cancelled_; }

  const std::vector<Event>& updates() const { return updates_; }
  const std::vector<TensorId>& counted() const { return counted_; }
  void cancel() { *cancelled_ = true; }
  bool is_cancelled() const { return *cancelled_; }

 private:
  const TileInputs& inputs_;
  const PayloadId chunk_;
  std::vector<Event> updates_;
  std::vector<TensorId> counted_;  ///< tensors whose counter went up
  const std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);  // owners: this and the jobs
};

Speculation::Speculation(const Parts& parts) : parts_(parts) {}

Speculation::~Speculation() {
  for (const auto& [chunk, attempt] : attempts_) {
    attempt->cancel();
    for (const Event& update : attempt->updates()) taken_back_.add(update);
  }
}

bool Speculation::may_update(PayloadId chunk) const {
  const auto& allowed = parts_.inputs.states.placement().speculative;
  const bool may = allowed.contains(chunk) && allowed[chunk] && !without_room_.contains(chunk);
  return may && forecast_.plain() && !attempts_.contains(chunk);
}

Result<void> Speculation::update(PayloadId chunk, const StepOptions& options) {
  if (!parts_.inputs.undo.reserve(parts_.inputs.states.written_by_update(chunk))) return {};
  Attempt& attempt = *(attempts_[chunk] = std::make_unique<Attempt>(parts_.inputs, chunk));
  auto updated = parts_.runner.update(chunk, {options, plain_scale(options)}, attempt);
  if (updated.ok()) return {};
  CASTOR_TRY(take_back(chunk));
  if (updated.error().kind != ErrorKind::does_not_fit) return updated;
  without_room_.insert(chunk);
  dropped_ = true;
  return {};
}

Result<void> Speculation::take_back(PayloadId chunk) {
  const auto found = attempts_.find(chunk);
  if (found == attempts_.end()) return {};
  if (!found->second->is_cancelled()) cancel(*found->second);
  for (const ChunkId id : parts_.inputs.states.written_by_update(chunk))
    if (auto put_back = this->put_back(chunk, id); !put_back.ok()) {
      if (put_back.error().kind != ErrorKind::interrupted) parts_.machine.lose();
      return put_back;
    }
  attempts_.erase(found);
  return {};
}

void Speculation::cancel(Attempt& attempt) {
  taken_back_.forget_ended();
  attempt.cancel();
  for (const Event& update : attempt.updates()) taken_back_.add(update);
  for (const TensorId tensor : attempt.counted()) --parts_.inputs.states.n_updates(tensor);
}

/// Makes the old contents of `id`, if they are kept, its contents again, and gives back the memory of the new ones.
Result<void> Speculation::put_back(PayloadId chunk, ChunkId id) {
  if (parts_.inputs.undo.saved(id)) {
    const std::array<Need, 1> needs = {Need{id, Tier::host, Access::update}};
    Beside others{parts_.team};
    CASTOR_TRY(parts_.scheduler.begin({MomentKind::update, number(chunk)}, needs, &others));
    parts_.inputs.undo.restore(id);
    parts_.scheduler.end(needs);
  }
  parts_.inputs.undo.drop(std::array{id});
  return {};
}

Result<void> Speculation::take_back_all() {
  while (!attempts_.empty()) CASTOR_TRY(take_back(attempts_.rbegin()->first));
  return {};
}

std::vector<Speculation::Confirmed> Speculation::confirm_all() {
  std::vector<Confirmed> confirmed;
  for (auto& [chunk, attempt] : std::exchange(attempts_, {})) {
    parts_.inputs.undo.drop(parts_.inputs.states.written_by_update(chunk));
    confirmed.push_back({chunk, attempt->updates()});
  }
  return confirmed;
}

bool Speculation::half_taken_back() const {
  return std::any_of(attempts_.begin(), attempts_.end(), [](const auto& of) { return of.second->is_cancelled(); });
}

IterationKind Speculation::next_kind(bool wants_norm, const StatePlacement& placement) const {
  const auto& allowed = placement.speculative;
  const bool has_room = std::find(allowed.begin(), allowed.end(), true) != allowed.end();
  return wants_norm && forecast_.plain() && has_room ? IterationKind::speculative : IterationKind::plain;
}

}  // namespace castor
