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
  return forecast_.plain() && !attempts_.contains(chunk) && allowed.contains(chunk) && allowed[chunk];
}

Result<void> Speculation::update(PayloadId chunk, const StepOptions& options) {
  if (!parts_.inputs.undo.reserve(parts_.inputs.states.written_by_update(chunk))) return {};
  Attempt& attempt = *(attempts_[chunk] = std::make_unique<Attempt>(parts_.inputs, chunk));
  auto updated = parts_.runner.update(chunk, {options, plain_scale(options)}, attempt);
  if (!updated.ok()) CASTOR_TRY(take_back(chunk));
  return updated;
}

Result<void> Speculation::take_back(PayloadId chunk) {
  const auto node = attempts_.extract(chunk);
  if (node.empty()) return {};
  taken_back_.forget_ended();
  node.mapped()->cancel();
  for (const Event& update : node.mapped()->updates()) taken_back_.add(update);
  for (const TensorId tensor : node.mapped()->counted()) --parts_.inputs.states.n_updates(tensor);
  const auto written = parts_.inputs.states.written_by_update(chunk);
  for (const ChunkId id : written) {
    if (!parts_.inputs.undo.saved(id)) continue;
    const std::array<Need, 1> needs = {Need{id, Tier::host, Access::update}};
    Beside others{parts_.team};
    if (auto begun = parts_.scheduler.begin({MomentKind::update, number(chunk)}, needs, &others); !begun.ok()) {
      parts_.machine.lose();
      return begun;
    }
    parts_.inputs.undo.restore(id);
    parts_.scheduler.end(needs);
  }
  parts_.inputs.undo.drop(written);
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

IterationKind Speculation::next_kind(bool wants_norm) const {
  const auto& allowed = parts_.inputs.states.placement().speculative;
  const bool has_room = std::find(allowed.begin(), allowed.end(), true) != allowed.end();
  return wants_norm && forecast_.plain() && has_room ? IterationKind::speculative : IterationKind::plain;
}

}  // namespace castor
