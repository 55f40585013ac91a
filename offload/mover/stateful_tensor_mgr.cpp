// SPDX-License-Identifier: Apache-2.0
#include <castor/mover/stateful_tensor_mgr.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "iteration_follower.h"
#include "plan_replay.h"

namespace castor {
namespace {

/// Of a thread that waits, between two looks at what else is due: well below what a tile takes over a drive.
constexpr auto kLongestPause = std::chrono::microseconds(500);

}  // namespace

StatefulTensorMgr::StatefulTensorMgr(ChunkManager& chunks, const Budget& device, const Budget& host, Stream& compute,
                                     Timeline& timeline, const LinkCosts& costs)
    : chunks_(chunks), device_(device), host_(host), compute_(compute), timeline_(timeline), costs_(costs) {
  for (Course& course : courses_) course.follower = std::make_unique<IterationFollower>(timeline);
}

StatefulTensorMgr::~StatefulTensorMgr() = default;

Result<void> StatefulTensorMgr::begin(Moment moment, std::span<const Need> needs, Beside* beside) {
  moment.beside = beside != nullptr;
  for (const Need& need : needs)
    if (moment.beside && need.tier != Tier::host)
      throw ContractViolation(chunks_.chunk(need.chunk).label + ": needed on the device beside the thread");
  for (const Tier tier : {Tier::device, Tier::host}) CASTOR_TRY(chunks_.reap(tier));
  for (std::uint64_t n_new = follow(moment, needs, beside); n_new > 0; --n_new)
    take_over_plan(follower().n_begun() - n_new);
  send_on();
  std::size_t n_pinned = 0;
  Result<void> outcome;
  for (; outcome.ok() && n_pinned < needs.size(); ++n_pinned) {
    chunks_.pin(needs[n_pinned].chunk, needs[n_pinned].tier);
    outcome = prepare(needs[n_pinned]);
  }
  for (const Need& need : needs)
    if (outcome.ok() && need.access != Access::overwrite) outcome = await(need, beside);
  if (outcome.ok()) outcome = start_fetches();
  if (!outcome.ok()) abandon(needs.first(n_pinned));
  follower().start();
  return outcome;
}

/// Undoes the begin of a moment that failed; memory for contents that will not come goes back.
void StatefulTensorMgr::abandon(std::span<const Need> needs) {
  for (const Need& need : needs) {
    chunks_.unpin(need.chunk, need.tier);
    const ChunkCopy& copy = chunks_.chunk(need.chunk).at(need.tier);
    if (!copy.current && copy.n_pins == 0)
      (void)chunks_.release(need.chunk, need.tier);  // has nothing to write below, so cannot fail
  }
}

/// Brings one need to its tier, or makes fresh memory for it.
Result<void> StatefulTensorMgr::prepare(const Need& need) {
  if (need.access == Access::overwrite) {
    CASTOR_TRY(open(need.chunk, need.tier));
    return {};
  }
  CASTOR_TRY(bring(need.chunk, need.tier));
  if (need.access == Access::read) return {};
  CASTOR_TRY(chunks_.edit(need.chunk, need.tier));
  return {};
}

void StatefulTensorMgr::end(std::span<const Need> needs, const Event& done) {
  for (const Need& need : needs) {
    chunks_.unpin(need.chunk, need.tier);
    if (need.access != Access::read)
      chunks_.written(need.chunk, need.tier, done);
    else if (done.state() != nullptr)
      chunks_.read_until(need.chunk, need.tier, done);
  }
}

/// How many moments of the iteration are new.
std::uint64_t StatefulTensorMgr::follow(Moment moment, std::span<const Need> needs, Beside* beside) {
  const bool on_device =
      std::any_of(needs.begin(), needs.end(), [](const Need& need) { return need.tier == Tier::device; });
  WorkTimer* const thread_or_stream = on_device ? &compute_ : nullptr;
  if (!in_iteration()) turn();
  const std::uint64_t n_new = follower().begin(moment, needs, beside != nullptr ? &beside->timer : thread_or_stream);
  const bool is_first = follower().n_begun() == n_new;
  if (is_first) make_plan_if_due();
  if (is_first || !follower().steady()) fetches_.clear();
  ++clock_;
  unit_ = of_unit(moment.kind) ? moment.id : kNoUnit;
  for (auto& uses : last_use_) uses.resize(chunks_.n_chunks(), 0);
  for (const Need& need : needs) last_use_[index(need.tier)][need.chunk] = clock_;
  return n_new;
}

/// A chunk that is needed beside what the moment under way began with.
void StatefulTensorMgr::note(ChunkId chunk, Tier tier, Access access) {
  if (AccessTrace* recording = follower().recording()) recording->add_need({chunk, tier, access});
}

void StatefulTensorMgr::break_off() { follower().break_off(); }

/// Another way is planned when it has come twice, and once more when it is known how long its moments take; one that could
/// not be planned is not tried again.
void StatefulTensorMgr::end_iteration() {
  follower().end();
  if (!follower().again()) {
    drop_plan();
    course_->plan_tried = false;
  }
  const bool way_is_new = !course_->plan_tried && (follower().again() || !course_->planned_once);
  course_->plan_due = way_is_new || (course_->replay && follower().timed_for_good());
}

void StatefulTensorMgr::set_rest(ChunkId chunk, Places rest) {
  rest_.resize(chunks_.n_chunks(), kAnywhere);
  rest_.at(chunk) = rest;
}

const AccessTrace& StatefulTensorMgr::trace() const {
  follower().take_times();
  return follower().trace();
}

std::optional<StepBound> StatefulTensorMgr::bound() const {
  const AccessTrace& trace = follower().trace();
  if (!course_->replay || trace.seconds().compute.empty()) return {};
  return step_bound(trace, trace.seconds(), course_->replay->plan(), chunk_bytes(), costs_);
}

bool StatefulTensorMgr::timed() const { return follower().timed(); }

bool StatefulTensorMgr::in_iteration() const { return follower().n_begun() > 0; }

bool StatefulTensorMgr::steady() const { return follower().steady(); }

/// Starts what it takes to have the chunk's contents in `tier`, hop by hop, evicting where a tier is full.
Result<void> StatefulTensorMgr::bring(ChunkId id, Tier tier) {
  const Chunk& chunk = chunks_.chunk(id);
  if (chunk.at(tier).current) return keep(id, tier);
  if (tier == Tier::host && !chunk.resident(Tier::device)) return hop(id, tier);
  const Tier source = tier == Tier::device ? Tier::host : Tier::device;
  if (tier == Tier::device) {
    CASTOR_TRY(bring(id, Tier::host));
    CASTOR_TRY(wait_for(id, Tier::host));
  }
  chunks_.pin(id, source);  // should not be the victim that makes room for its own next hop
  auto outcome = hop(id, tier);
  chunks_.unpin(id, source);
  const bool tight = tier == Tier::device && !outcome.ok() && outcome.error().kind == ErrorKind::does_not_fit;
  if (!tight) return outcome;
  // The victim above needs the very room that the source holds: room above first, then the source once more.
  CASTOR_TRY(open(id, tier));
  CASTOR_TRY(bring(id, Tier::host));
  return keep(id, tier);
}

/// One hop from a neighbouring tier, evicting until there is room for it.
Result<void> StatefulTensorMgr::hop(ChunkId id, Tier tier) {
  auto outcome = keep(id, tier);
  while (!outcome.ok() && outcome.error().kind == ErrorKind::does_not_fit) {
    CASTOR_TRY(make_room(id, tier, outcome.error()));
    outcome = keep(id, tier);
  }
  return outcome;
}

Result<void> StatefulTensorMgr::keep(ChunkId id, Tier tier) {
  CASTOR_TRY(chunks_.fetch(id, tier));
  return {};
}

Result<BufferView> StatefulTensorMgr::open(ChunkId chunk, Tier tier) {
  note(chunk, tier, Access::overwrite);
  while (true) {
    auto opened = chunks_.open(chunk, tier);
    if (opened.ok() || opened.error().kind != ErrorKind::does_not_fit) return opened;
    CASTOR_TRY(make_room(chunk, tier, opened.error()));
  }
}

Result<BufferView> StatefulTensorMgr::look(ChunkId chunk, Tier tier) {
  note(chunk, tier, Access::read);
  CASTOR_TRY(bring(chunk, tier));
  CASTOR_TRY(wait_for(chunk, tier));
  return chunks_.chunk(chunk).at(tier).buffer.view();
}

Result<BufferView> StatefulTensorMgr::hold(ChunkId chunk, Tier tier) {
  CASTOR_ASSIGN(const BufferView view, look(chunk, tier));
  chunks_.pin(chunk, tier);
  return view;
}

void StatefulTensorMgr::unhold(ChunkId chunk, Tier tier) {
  note(chunk, tier, Access::read);
  chunks_.unpin(chunk, tier);
}

Result<BufferView> StatefulTensorMgr::edit(ChunkId chunk, Tier tier) {
  if (!chunks_.chunk(chunk).has_contents()) return open(chunk, tier);
  note(chunk, tier, Access::update);
  CASTOR_TRY(bring(chunk, tier));
  return chunks_.edit(chunk, tier);
}

void StatefulTensorMgr::arriving(ChunkId chunk, Tier tier, std::uint64_t n_bytes, Event event) {
  AccessTrace* const recording = follower().recording();
  if (tier == Tier::host && recording) recording->add_arrival(chunk, n_bytes);
  chunks_.arriving(chunk, tier, n_bytes, std::move(event));
}

void StatefulTensorMgr::discard(ChunkId chunk) {
  if (AccessTrace* recording = follower().recording()) recording->drop(chunk);
  chunks_.discard(chunk);
}

Result<void> StatefulTensorMgr::push_down(ChunkId id, Tier tier) {
  const Chunk& chunk = chunks_.chunk(id);
  if (!chunk.resident(tier) || chunk.at(tier).n_pins > 0) return {};
  if (tier == Tier::device && !chunk.clean(tier)) CASTOR_TRY(bring(id, Tier::host));
  return chunks_.release(id, tier);
}

/// Calls `wait`, which counts as waiting and not as the moment's computing.
template <typename Wait>
auto StatefulTensorMgr::waiting(Wait wait) {
  follower().pause();
  const std::uint64_t start_ns = timeline_.now_ns();
  auto outcome = wait();
  const std::uint64_t end_ns = timeline_.now_ns();
  timeline_.record({Lane::wait, unit_, start_ns, end_ns, 0});
  wait_ns_ += end_ns - start_ns;
  follower().go_on();
  return outcome;
}

Result<void> StatefulTensorMgr::write_back(std::span<const ChunkId> chunks) {
  Result<void> outcome;
  for (const ChunkId id : chunks)
    if (outcome.ok() && !chunks_.chunk(id).nvme_current) outcome = start_write_back(id);
  return waiting([&] {
    for (const ChunkId id : chunks)
      if (auto written = chunks_.settle(id, Tier::host); outcome.ok()) outcome = std::move(written);
    return outcome;
  });
}

/// The copy on the host stays until it is read, whatever else is carried on meanwhile; one that was made for this goes then.
Result<void> StatefulTensorMgr::start_write_back(ChunkId id) {
  const bool was_on_host = chunks_.chunk(id).resident(Tier::host);
  chunks_.pin(id, Tier::host);
  const auto there = look(id, Tier::host);
  const auto started = there.ok() ? chunks_.below().write_back(id) : there.error();
  chunks_.unpin(id, Tier::host);
  return started.ok() && !was_on_host ? chunks_.release(id, Tier::host) : started;
}

Result<void> StatefulTensorMgr::join(Moment moment) {
  CASTOR_TRY(begin(moment, {}));
  auto reached = waiting([this] { return compute_.record().wait(); });
  end({});
  return reached;
}

/// Whoever does the moment's work waits for what it needs. A failure that is known already is one of begin.
Result<void> StatefulTensorMgr::await(const Need& need, Beside* beside) {
  if (beside == nullptr) return wait_for(need.chunk, need.tier, true);
  const Event& arrived = chunks_.chunk(need.chunk).at(need.tier).arrived;
  if (arrived.ready()) return arrived.wait();
  beside->after.push_back(arrived);
  return {};
}

/// The thread waits for a copy on the host; the compute stream (which may be the thread) waits for one on the device.
/// Fetches start meanwhile only where `all_have_room`, all that the moment needs.
Result<void> StatefulTensorMgr::wait_for(ChunkId chunk, Tier tier, bool all_have_room) {
  const Event arrived = chunks_.chunk(chunk).at(tier).arrived;
  if (arrived.ready()) return arrived.wait();
  return waiting([&]() -> Result<void> {
    if (tier == Tier::device) return chunks_.join(chunk);
    while (!arrived.wait_for(kLongestPause)) {
      CASTOR_TRY(carry_on());
      if (all_have_room) CASTOR_TRY(start_fetches());
    }
    return arrived.wait();
  });
}

/// Until something has left; nothing where nothing leaves. What would come takes no room meanwhile: somebody waits for it.
Result<std::uint64_t> StatefulTensorMgr::wait_for_leaving(Tier tier) {
  return waiting([&]() -> Result<std::uint64_t> {
    while (true) {
      CASTOR_ASSIGN(const std::uint64_t freed_bytes, chunks_.reap(tier));
      if (freed_bytes > 0 || !chunks_.memory().wait_for_leaving(tier, kLongestPause)) return freed_bytes;
      send_on(tier);
    }
  });
}

}  // namespace castor
