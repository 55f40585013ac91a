// SPDX-License-Identifier: Apache-2.0
#include "speculation.h"

#include <algorithm>
#include <array>

namespace castor {

/// The speculative update of one chunk.
class Speculation::Attempt final : public UpdateJournal {
 public:
  Attempt(const TileInputs& inputs, std::uint32_t i) : inputs_(inputs), i_(i) {}

  bool keeps_old() const override { return true; }
  Result<void> begin_tile(std::uint32_t tile) override {
    inputs_.kept.keep(inputs_.states.state(i_, tile));
    if (tile == 0) inputs_.kept.keep(inputs_.states.payload(i_));
    return {};
  }
  void counted(std::uint32_t tensor) override { counted_.push_back(tensor); }
  void started(std::uint32_t tile, const Event& updated) override {
    updates_.push_back(updated);
    inputs_.kept.read_until(inputs_.states.state(i_, tile), updated);
    inputs_.kept.read_until(inputs_.states.payload(i_), updated);
  }
  std::shared_ptr<std::atomic<bool>> cancelled() const override { return cancelled_; }

  const std::vector<Event>& updates() const { return updates_; }
  const std::vector<std::uint32_t>& counted() const { return counted_; }
  void cancel() { *cancelled_ = true; }

 private:
  const TileInputs& inputs_;
  const std::uint32_t i_;
  std::vector<Event> updates_;
  std::vector<std::uint32_t> counted_;  ///< tensors whose counter went up
  const std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);  // owners: this and the jobs
};

Speculation::Speculation(const Parts& parts) : parts_(parts) {}

Speculation::~Speculation() {
  for (const auto& [i, attempt] : attempts_) {
    attempt->cancel();
    for (const Event& update : attempt->updates()) taken_back_.add(update);
  }
}

bool Speculation::may_update(std::uint32_t i) const {
  const auto& allowed = parts_.inputs.states.placement().speculative;
  return forecast_.plain() && !attempts_.contains(i) && i < allowed.size() && allowed[i];
}

Result<void> Speculation::update(std::uint32_t i, const StepOptions& options) {
  if (!parts_.inputs.kept.open(parts_.inputs.states.written_by_update(i))) return {};
  Attempt& attempt = *(attempts_[i] = std::make_unique<Attempt>(parts_.inputs, i));
  auto updated = parts_.runner.update(i, {options, plain_scale(options)}, attempt);
  if (!updated.ok()) CASTOR_TRY(take_back(i));
  return updated;
}

Result<void> Speculation::take_back(std::uint32_t i) {
  const auto node = attempts_.extract(i);
  if (node.empty()) return {};
  taken_back_.forget_ended();
  node.mapped()->cancel();
  for (const Event& update : node.mapped()->updates()) taken_back_.add(update);
  for (const std::uint32_t tensor : node.mapped()->counted()) --parts_.inputs.states.n_updates(tensor);
  const auto written = parts_.inputs.states.written_by_update(i);
  for (const ChunkId id : written) {
    if (!parts_.inputs.kept.kept(id)) continue;
    const std::array<Need, 1> needs = {Need{id, Tier::host, Access::update}};
    Beside others{parts_.team};
    if (auto begun = parts_.scheduler.begin({MomentKind::update, i}, needs, &others); !begun.ok()) {
      parts_.machine.poison();
      return begun;
    }
    parts_.inputs.kept.put_back(id);
    parts_.scheduler.end(needs);
  }
  parts_.inputs.kept.drop(written);
  return {};
}

Result<void> Speculation::take_back_all() {
  while (!attempts_.empty()) CASTOR_TRY(take_back(attempts_.rbegin()->first));
  return {};
}

std::vector<Speculation::Kept> Speculation::keep_all() {
  std::vector<Kept> kept;
  for (auto& [i, attempt] : std::exchange(attempts_, {})) {
    parts_.inputs.kept.drop(parts_.inputs.states.written_by_update(i));
    kept.push_back({i, attempt->updates()});
  }
  return kept;
}

IterationKind Speculation::next_kind(bool wants_norm) const {
  const auto& allowed = parts_.inputs.states.placement().speculative;
  const bool has_room = std::find(allowed.begin(), allowed.end(), true) != allowed.end();
  return wants_norm && forecast_.plain() && has_room ? IterationKind::speculative : IterationKind::plain;
}

}  // namespace castor
