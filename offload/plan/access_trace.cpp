// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/access_trace.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace castor {

const char* name(MomentKind kind) {
  switch (kind) {
    case MomentKind::forward: return "forward";
    case MomentKind::backward: return "backward";
    case MomentKind::norm: return "norm";
    case MomentKind::update: return "update";
  }
  throw ContractViolation("MomentKind holds no kind");
}

const char* name(Access access) {
  switch (access) {
    case Access::read: return "read";
    case Access::update: return "update";
    case Access::overwrite: return "overwrite";
  }
  throw ContractViolation("Access holds no access");
}

void AccessTrace::add(Moment moment, std::span<const Need> needs) {
  moments_.push_back(moment);
  needs_.emplace_back(needs.begin(), needs.end());
  for (const Need& need : needs) note_use(need);
  seconds_.compute.push_back(0);
  seconds_.thread.push_back(0);
}

void AccessTrace::repeat(const AccessTrace& other, std::uint64_t position) {
  add(other.moment(position), other.needs(position));
  for (const Need& need : other.needs(position)) {
    if (const std::uint64_t n_bytes = other.arriving_bytes(position, need.chunk)) add_arrival(need.chunk, n_bytes);
    if (other.dropped(position, need.chunk)) drop(need.chunk);
  }
}

void AccessTrace::add_need(const Need& need) {
  if (empty()) throw ContractViolation("AccessTrace: a need of no moment");
  auto& needs = needs_.back();
  const auto same_chunk = [&need](const Need& other) { return other.chunk == need.chunk; };
  if (std::any_of(needs.begin(), needs.end(), same_chunk)) return;
  needs.push_back(need);
  note_use(need);
}

/// The last moment uses the chunk.
void AccessTrace::note_use(const Need& need) {
  auto& of_chunks = uses_[index(need.tier)];
  if (!of_chunks.contains(need.chunk)) of_chunks.resize(index(need.chunk) + 1);
  of_chunks[need.chunk].push_back(n_moments() - 1);
}

/// The positions at which `chunk` is needed in `tier`; null where there are none.
const std::vector<std::uint64_t>* AccessTrace::uses(ChunkId chunk, Tier tier) const {
  const auto& of_chunks = uses_[index(tier)];
  return of_chunks.contains(chunk) && !of_chunks[chunk].empty() ? &of_chunks[chunk] : nullptr;
}

void AccessTrace::add_arrival(ChunkId chunk, std::uint64_t n_bytes) {
  if (empty()) throw ContractViolation("AccessTrace: an arrival at no moment");
  arriving_bytes_[{n_moments() - 1, chunk}] += n_bytes;
}

std::uint64_t AccessTrace::arriving_bytes(std::uint64_t position, ChunkId chunk) const {
  const auto found = arriving_bytes_.find({position, chunk});
  return found == arriving_bytes_.end() ? 0 : found->second;
}

void AccessTrace::drop(ChunkId chunk) {
  std::optional<std::uint64_t> last;
  for (const Tier tier : {Tier::device, Tier::host})
    if (const auto* positions = uses(chunk, tier)) last = std::max(last.value_or(0), positions->back());
  if (last) drops_.emplace(*last, chunk);
}

void AccessTrace::set_seconds(MomentSeconds seconds) {
  for (const std::vector<double>* given : {&seconds.compute, &seconds.thread})
    if (given->size() != n_moments())
      throw ContractViolation("AccessTrace: seconds of " + std::to_string(given->size()) + " moments");
  seconds_ = std::move(seconds);
}

void AccessTrace::clear() { *this = AccessTrace(); }

std::uint64_t AccessTrace::distance(ChunkId chunk, Tier tier, std::uint64_t position) const {
  const auto* positions = uses(chunk, tier);
  if (!positions) return kNever;
  const auto next = std::lower_bound(positions->begin(), positions->end(), position);
  return next != positions->end() ? *next - position : n_moments() - position + positions->front();
}

}  // namespace castor
