// SPDX-License-Identifier: Apache-2.0
// What makes a store durable, and brings it back (docs/storage.md).
#include <algorithm>
#include <utility>

#include "tensor_store_impl.h"

namespace castor {
namespace {

Error not_committed(std::uint64_t step, const Error& why) {
  return {why.kind, "step " + std::to_string(step) + " is not committed: " + why.message};
}

Error no_such_place(const ManifestValue& stored) {
  return {ErrorKind::io, "the manifest says that key " + std::to_string(stored.key) + " has " +
                             std::to_string(stored.n_bytes) +
                             " bytes, which do not lie in its extents; restore a copy of the folders"};
}

}  // namespace

/// A put must not touch what the last commit holds.
void TensorStore::Impl::use_other_slot(StoreEntry& entry) {
  if (!std::exchange(entry.value_is_durable, false)) return;
  entry.durable = std::exchange(entry.value, std::exchange(entry.spare, std::nullopt));
}

Event TensorStore::Impl::commit(std::uint64_t step) {
  if (!committer_) throw ContractViolation("commit of a store that was opened as scratch");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !committing_; });
  committing_ = true;
  Commit next{step, events_.make()};
  Event done(next.done);
  committer_->push(std::move(next));
  return done;
}

std::optional<std::uint64_t> TensorStore::Impl::committed_step() const {
  const std::lock_guard lock(mutex_);
  return committed_step_;
}

// ---- the committer's thread ----

void TensorStore::Impl::run_commit(const Commit& commit) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return n_puts_ == held_.size(); });
  }
  auto outcome = make_durable(commit.step);
  if (!outcome.ok()) outcome = not_committed(commit.step, outcome.error());
  lift_barrier(commit, outcome);
}

/// No put runs meanwhile, and none begins: the values stand still. First the data, then the manifest that names it.
Result<void> TensorStore::Impl::make_durable(std::uint64_t step) {
  CASTOR_ASSIGN(const Manifest manifest, describe(step));
  CASTOR_TRY(sync_volumes());
  CASTOR_TRY(write_manifest(manifest));
  promote(step);
  return {};
}

Result<Manifest> TensorStore::Impl::describe(std::uint64_t step) const {
  Manifest manifest = parts_.files->blank_manifest(step, set_.block_bytes(), checksums_);
  const std::lock_guard lock(mutex_);
  if (poison_) return *poison_;
  for (const auto& [key, entry] : values_) {
    if (entry.lost) return *entry.lost;
    if (!entry.value) continue;
    manifest.values.push_back({key, entry.value->n_bytes, entry.value->place.extents, entry.value->checksums});
  }
  complete_manifest(manifest);
  return manifest;
}

/// What a failed sync leaves on the drive nobody knows, and a second one may claim success (P. Rebello et al., "Can
/// Applications Recover from fsync Failures?", 2020): nothing can be promised from then on.
Result<void> TensorStore::Impl::sync_volumes() {
  std::vector<Event> synced;
  for (std::size_t volume = 0; volume < set_.n_volumes(); ++volume) {
    IoRequest request = set_.file(volume).sync_request();
    request.deadline = deadline_after(timeout_);
    synced.push_back(parts_.engines[parts_.engine_of[volume]]->submit(request));
  }
  Result<void> outcome;
  for (const Event& event : synced)
    if (auto ended = event.wait(); !ended.ok() && outcome.ok()) outcome = ended;
  if (outcome.ok()) return {};
  return poison(outcome.error().message + "; open the store again to go on from its last commit");
}

/// Where the manifest could not be written, the old one stands and the commit may be tried again; where it is in doubt
/// which of the two stands, nothing may be overwritten any more.
Result<void> TensorStore::Impl::write_manifest(const Manifest& manifest) {
  const auto written = parts_.files->write(manifest);
  if (written.ok() || parts_.files->still_holds(committed_step())) return written;
  return poison(written.error().message + "; open the store again to see which commit stands");
}

/// From here on the store takes no puts and gives no room back: what is on the drive stays as it is.
Error TensorStore::Impl::poison(const std::string& why) {
  const std::lock_guard lock(mutex_);
  poison_ = Error{ErrorKind::io, why};
  poisoned_ = true;
  return *poison_;
}

void TensorStore::Impl::promote(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  committed_step_ = step;
  for (auto& [key, entry] : values_) promote(key, entry);
  for (auto at = values_.begin(); at != values_.end();) at = at->second.empty() ? values_.erase(at) : std::next(at);
}

/// The new value is durable now; the room of the old one is the next put's, or nobody's.
void TensorStore::Impl::promote(std::uint64_t key, StoreEntry& entry) {
  if (entry.value && entry.durable &&
      value_room_bytes(entry.value->n_bytes) == value_room_bytes(entry.durable->n_bytes))
    entry.spare = std::exchange(entry.durable, std::nullopt);
  drop(key, entry.durable);
  if (!entry.value) drop(key, entry.spare);
  entry.value_is_durable = entry.value.has_value();
}

void TensorStore::Impl::lift_barrier(const Commit& commit, const Result<void>& outcome) {
  OpsToStart turn;
  {
    const std::lock_guard lock(mutex_);
    committing_ = false;
    for (StoreOp* op : held_) op->held = false;
    for (StoreOp* op : held_) collect_turns(*op->entry, turn);
    held_.clear();
    commit.done->complete(outcome);
    changed_.notify_all();
  }
  launch_all(turn);
}

// ---- opening ----

Result<void> TensorStore::Impl::restore() {
  if (!parts_.files || !parts_.files->found()) return {};
  const Manifest& manifest = *parts_.files->found();
  for (const auto& stored : manifest.values) {
    StoreEntry& entry = values_[stored.key];
    const Placement place{stored.extents};
    if (!holds_value(place, stored.n_bytes, set_.block_bytes())) return no_such_place(stored);
    CASTOR_TRY(set_.claim(stored.key, place));
    entry.value = StoredValue{stored.n_bytes, place, stored.checksums};
    entry.value_is_durable = true;
  }
  set_.drop_unclaimed();
  committed_step_ = manifest.step;
  return {};
}

}  // namespace castor
