// SPDX-License-Identifier: Apache-2.0
#include "store_committer.h"

#include <utility>
#include <vector>

namespace castor {
namespace {

Error not_committed(std::uint64_t step, const Error& why) {
  return {why.kind, "step " + std::to_string(step) + " is not committed: " + why.message};
}

}  // namespace

StoreCommitter::StoreCommitter(const Parts& parts, const Options& options, OnLifted on_lifted)
    : parts_(parts),
      options_(options),
      on_lifted_(std::move(on_lifted)),
      worker_("castor-commit", [this](const Commit& next) { run(next); }) {}

Result<void> StoreCommitter::restore() {
  const auto& found = parts_.store.files->found();
  if (!found) return {};
  CASTOR_TRY(parts_.values.restore(*found));
  if (!options_.read_only) parts_.values.drop_unclaimed();
  committed_step_ = found->step;
  return {};
}

void StoreCommitter::start(std::uint64_t step, std::shared_ptr<HostEventState> done) {
  std::unique_lock lock(parts_.monitor.mutex);
  parts_.monitor.changed.wait(lock, [this] { return !parts_.ops.barrier_up(); });
  parts_.ops.raise_barrier();
  worker_.push({step, std::move(done)});
}

std::optional<std::uint64_t> StoreCommitter::committed_step() const {
  const std::lock_guard lock(parts_.monitor.mutex);
  return committed_step_;
}

// ---- the committer's thread ----

void StoreCommitter::run(const Commit& commit) {
  {
    std::unique_lock lock(parts_.monitor.mutex);
    parts_.monitor.changed.wait(lock, [this] { return parts_.ops.puts_rest(); });
  }
  auto outcome = make_durable(commit.step);
  if (!outcome.ok()) outcome = not_committed(commit.step, outcome.error());
  lift_barrier(commit, outcome);
}

/// No put runs or begins meanwhile, so the values do not change. First the data, then the manifest that names it.
Result<void> StoreCommitter::make_durable(std::uint64_t step) {
  CASTOR_ASSIGN(const Manifest manifest, describe(step));
  CASTOR_TRY(sync_volumes());
  CASTOR_TRY(write_manifest(manifest));
  promote(step);
  return {};
}

Result<Manifest> StoreCommitter::describe(std::uint64_t step) const {
  Manifest manifest = parts_.store.files->blank_manifest(step, parts_.store.set->block_bytes(), options_.checksums);
  const std::lock_guard lock(parts_.monitor.mutex);
  CASTOR_TRY(parts_.values.describe(manifest));
  complete_manifest(manifest);
  return manifest;
}

/// After a failed sync the contents of the drive are unknown, and a second sync may claim success (P. Rebello et al.,
/// "Can Applications Recover from fsync Failures?", 2020): nothing can be promised from then on.
Result<void> StoreCommitter::sync_volumes() {
  const StripeSet& set = *parts_.store.set;
  std::vector<Event> synced;
  for (std::size_t volume = 0; volume < set.n_volumes(); ++volume) {
    IoRequest request = set.file(volume).sync_request();
    request.deadline = deadline_after(options_.timeout);
    synced.push_back(parts_.store.engine(volume).submit(request));
  }
  Result<void> outcome;
  for (const Event& event : synced)
    if (auto ended = event.wait(); !ended.ok() && outcome.ok()) outcome = ended;
  if (outcome.ok()) return {};
  return freeze(outcome.error().message + "; open the store again to continue from its last commit");
}

/// Where the manifest could not be written, the old one stands and the caller may try the commit again; where either of
/// the two may stand, nothing may be overwritten any more.
Result<void> StoreCommitter::write_manifest(const Manifest& manifest) {
  const auto written = parts_.store.files->write(manifest);
  if (written.ok() || parts_.store.files->still_holds(committed_step())) return written;
  return freeze(written.error().message + "; open the store again to see which commit is its last");
}

Error StoreCommitter::freeze(const std::string& why) {
  const Error error{ErrorKind::io, why};
  const std::lock_guard lock(parts_.monitor.mutex);
  parts_.values.freeze(error);
  return error;
}

void StoreCommitter::promote(std::uint64_t step) {
  const std::lock_guard lock(parts_.monitor.mutex);
  committed_step_ = step;
  parts_.values.promote();
}

void StoreCommitter::lift_barrier(const Commit& commit, const Result<void>& outcome) {
  OpsToStart turn;
  {
    const std::lock_guard lock(parts_.monitor.mutex);
    parts_.ops.lift_barrier(turn);
    commit.done->complete(outcome);
    parts_.monitor.changed.notify_all();
  }
  on_lifted_(turn);
}

}  // namespace castor
