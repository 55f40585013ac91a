// SPDX-License-Identifier: Apache-2.0
#include <castor/states/state_commits.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace castor {
namespace {

/// Chunks have one of two ranges of keys: a training in other chunks than those committed uses the other one.
constexpr std::uint64_t kFirstKey = 0, kOtherFirstKey = std::uint64_t{1} << 32;

/// Elements of each tensor.
IndexedVector<RegisteredId, std::uint64_t> numels(const StateMap& map) {
  IndexedVector<RegisteredId, std::uint64_t> found(map.registered.size());
  for (const TensorId tensor : map.registered.ids())
    found[map.registered[tensor]] = map.layout.tensors[tensor].numel;
  return found;
}

Result<void> check_tensors(const StateMap& ours, const StateMap& theirs) {
  if (ours.format.keeps_exp_avg_sq != theirs.format.keeps_exp_avg_sq)
    return Error{ErrorKind::usage,
                 "the run in the folders of nvme has the moments of another optimizer; give the optimizer of that run"};
  if (numels(ours) == numels(theirs)) return {};
  return Error{ErrorKind::usage, "the run in the folders of nvme has other parameters (" +
                                     std::to_string(theirs.registered.size()) + " of them) than the model (" +
                                     std::to_string(ours.registered.size()) +
                                     "); give the model that was trained there"};
}

}  // namespace

Result<std::unique_ptr<StateCommits>> StateCommits::make(const Parts& parts) {
  std::unique_ptr<StateCommits> commits(new StateCommits(parts));
  CASTOR_ASSIGN(commits->found_, CommittedStates::find(parts.store));
  if (!commits->found_ && parts.store.committed_step())
    return Error{ErrorKind::usage, "the folders of nvme hold a store of something else, as of step " +
                                       std::to_string(*parts.store.committed_step()) + "; name other folders"};
  if (!commits->found_) return commits;
  commits->note_ = commits->found_->note();
  parts.spill.set_first_key(commits->found_->map().first_key == kFirstKey ? kOtherFirstKey : kFirstKey);
  return commits;
}

StateCommits::~StateCommits() {
  if (under_way_) (void)under_way_->described.wait();
}

/// A commit whose wait was given up may have become durable since.
const std::string& StateCommits::note() const {
  const bool ended = under_way_ && under_way_->committed && under_way_->committed->ready();
  return ended && under_way_->committed->wait().ok() ? under_way_->note : note_;
}

/// Waits for work of the store, however it ends. Errors: those of the mover's waits.
Result<void> StateCommits::await(const Event& event) const {
  return parts_.mover.join_host(event, "the commit of the run; the one before stands until it is whole");
}

/// Waits for the end of the last commit, however it ends. Errors: as await.
Result<void> StateCommits::settle() {
  if (!under_way_) return {};
  CASTOR_TRY(await(under_way_->described));
  if (under_way_->committed) CASTOR_TRY(await(*under_way_->committed));
  note_ = std::string(note());
  under_way_.reset();
  return {};
}

/// Has the store keep all values and their description as of now.
Result<void> StateCommits::make_durable(std::uint64_t step, const StateMap& map, std::string_view note) {
  UnderWay& commit = under_way_.emplace();
  commit.note = note;
  commit.description = CommittedStates::description(map, note);
  commit.described =
      parts_.store.put(CommittedStates::kKey, {commit.description.data(), commit.description.size()});
  CASTOR_TRY(await(commit.described));
  CASTOR_TRY(commit.described.wait());
  const Event committed = parts_.store.commit(step);
  commit.committed = committed;
  CASTOR_TRY(settle());
  return committed.wait();
}

StateMap StateCommits::map() const {
  StateMap map = parts_.states.map();
  map.first_key = parts_.spill.first_key();
  return map;
}

Result<CommitFigures> StateCommits::commit(std::uint64_t step, std::string_view note) {
  if (found_)
    return Error{ErrorKind::usage,
                 "the folders of nvme hold a run of " + std::to_string(parts_.store.committed_step().value_or(0)) +
                     " steps, which this one would replace; continue that run, or name other folders"};
  CASTOR_TRY(settle());
  CASTOR_TRY(parts_.barrier.complete_all());
  CommitFigures figures;
  const StateMap map = this->map();
  for (const ChunkId id : map.chunks()) {
    const Chunk& chunk = parts_.chunks.chunk(id);
    if (chunk.resident(Tier::nvme)) figures.referenced_bytes += chunk.n_bytes;
  }
  const std::uint64_t before_bytes = parts_.chunks.moved().nvme_write;
  CASTOR_TRY(parts_.io.write_back());
  figures.written_bytes = parts_.chunks.moved().nvme_write - before_bytes;
  CASTOR_TRY(make_durable(step, map, note));
  return figures;
}

Result<void> StateCommits::restore() {
  if (!found_) return Error{ErrorKind::usage, "the folders of nvme hold no run to continue"};
  CASTOR_TRY(adopts() ? adopt() : copy());
  remove_others(map());
  found_.reset();
  return {};
}

/// True where the store has every chunk of the optimizer's own, in the same layout and of the same size.
bool StateCommits::adopts() const {
  if (!found_) return false;
  const StateMap& theirs = found_->map();
  if (!map().same_places(theirs)) return false;
  const auto chunks = theirs.chunks();
  return std::all_of(chunks.begin(), chunks.end(), [&](ChunkId id) {
    const auto n_bytes = parts_.store.value_bytes(theirs.key(id));
    return n_bytes.ok() && *n_bytes == parts_.chunks.chunk(id).n_bytes;
  });
}

Result<void> StateCommits::adopt() {
  parts_.spill.set_first_key(found_->map().first_key);
  return parts_.io.take_spilled(found_->map().n_updates);
}

Result<void> StateCommits::copy() {
  const StateMap ours = map(), &theirs = found_->map();
  CASTOR_TRY(check_tensors(ours, theirs));
  IndexedVector<RegisteredId, TensorId> tensor_of(ours.registered.size());
  for (const TensorId tensor : ours.registered.ids()) tensor_of[ours.registered[tensor]] = tensor;
  return found_->read([&](RegisteredId registered, const StateValues& states) {
    return parts_.io.write(tensor_of[registered], states);
  });
}

/// Removes all other values of the store. Their room is free after the next commit.
void StateCommits::remove_others(const StateMap& kept) {
  const auto chunks = kept.chunks();
  std::set<std::uint64_t> stay = {CommittedStates::kKey};
  for (const ChunkId id : chunks) stay.insert(kept.key(id));
  for (const std::uint64_t key : parts_.store.keys())
    if (stay.count(key) == 0) parts_.store.remove(key);
}

}  // namespace castor
