// SPDX-License-Identifier: Apache-2.0
#include "thread_group.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

namespace castor::test {
namespace {

const castor_collective& call_of(const void* posted) { return *static_cast<const castor_collective*>(posted); }

std::size_t element_bytes(const castor_collective& call) { return call.dtype.bits / 8; }

/// Elements of rank `rank`'s part.
std::uint64_t part(const castor_collective& call, std::uint32_t rank) {
  return call.counts != nullptr ? call.counts[rank] : call.n;
}

/// Elements of the parts before rank `rank`'s.
std::uint64_t before(const castor_collective& call, std::uint32_t rank) {
  std::uint64_t n = 0;
  for (std::uint32_t other = 0; other < rank; ++other) n += part(call, other);
  return n;
}

template <typename T>
void add(void* into, const void* from, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) static_cast<T*>(into)[i] += static_cast<const T*>(from)[i];
}

void add(const castor_collective& call, void* into, const void* from, std::uint64_t n) {
  if (call.dtype.code == kDLFloat && call.dtype.bits == 64) return add<double>(into, from, n);
  if (call.dtype.code == kDLInt) return add<std::int64_t>(into, from, n);
  add<float>(into, from, n);
}

std::uint64_t combine(std::uint32_t op, std::uint64_t a, std::uint64_t b) {
  switch (op) {
    case CASTOR_MAX: return std::max(a, b);
    case CASTOR_MIN: return std::min(a, b);
    case CASTOR_OR: return a | b;
    default: return a + b;
  }
}

}  // namespace

Result<void> ThreadWorld::locked_status() const {
  if (!aborted_) return {};
  return Error{ErrorKind::failed, "the group has ended: " + *aborted_};
}

Result<void> ThreadWorld::status() const {
  const std::lock_guard lock(mutex_);
  return locked_status();
}

/// The last rank to come opens the next round.
Result<void> ThreadWorld::meet(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t round = round_;
  if (++n_there_ == size_) {
    n_there_ = 0, ++round_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return round_ != round || aborted_; });
  return round_ != round ? Result<void>() : locked_status();
}

Result<void> ThreadWorld::exchange(std::uint32_t rank, const void* call,
                                   const std::function<void(const std::vector<const void*>&)>& read) {
  std::unique_lock lock(mutex_);
  CASTOR_TRY(locked_status());
  posted_[rank] = call;
  CASTOR_TRY(meet(lock));
  const auto posted = posted_;
  lock.unlock();
  read(posted);
  lock.lock();
  return meet(lock);
}

void ThreadWorld::leave(std::uint32_t from, std::uint32_t to, std::string bytes) {
  const std::lock_guard lock(mutex_);
  mail_[{from, to}].push_back(std::move(bytes));
  changed_.notify_all();
}

Result<std::string> ThreadWorld::take(std::uint32_t from, std::uint32_t to) {
  std::unique_lock lock(mutex_);
  auto& box = mail_[{from, to}];
  changed_.wait(lock, [&] { return !box.empty() || aborted_; });
  if (box.empty()) return locked_status().error();
  std::string bytes = std::move(box.front());
  box.erase(box.begin());
  return bytes;
}

void ThreadWorld::abort(std::string why) {
  const std::lock_guard lock(mutex_);
  if (!aborted_) aborted_ = std::move(why);
  changed_.notify_all();
}

ThreadGroup::ThreadGroup(ThreadWorld& world, std::uint32_t rank) : world_(world), rank_(rank), ranks_(world.size()) {
  std::iota(ranks_.begin(), ranks_.end(), 0u);
}

Result<castor_group_info> ThreadGroup::group_info(std::uint32_t) {
  auto info = blank<castor_group_info>();
  info.rank = rank_, info.size = world_.size();
  info.ranks = ranks_.data();
  return info;
}

Result<void> ThreadGroup::all_gather(const castor_collective& call) {
  return world_.exchange(rank_, &call, [&](const auto& posted) {
    for (std::uint32_t other = 0; other < posted.size(); ++other)
      std::memmove(static_cast<char*>(call.recv) + before(call, other) * element_bytes(call),
                   call_of(posted[other]).send, part(call, other) * element_bytes(call));
  });
}

Result<void> ThreadGroup::reduce_scatter(const castor_collective& call) {
  const std::uint64_t n = part(call, rank_), first = before(call, rank_) * element_bytes(call);
  return world_.exchange(rank_, &call, [&](const auto& posted) {
    std::memset(call.recv, 0, n * element_bytes(call));
    for (const void* other : posted) add(call, call.recv, static_cast<const char*>(call_of(other).send) + first, n);
  });
}

/// Reads all before any is written: send and recv may be one.
Result<void> ThreadGroup::all_reduce(const castor_collective& call) {
  std::vector<char> sum(call.n * element_bytes(call));
  CASTOR_TRY(world_.exchange(rank_, &call, [&](const auto& posted) {
    for (const void* other : posted) add(call, sum.data(), call_of(other).send, call.n);
  }));
  std::memcpy(call.recv, sum.data(), sum.size());
  return {};
}

Result<void> ThreadGroup::broadcast(const castor_collective& call) {
  return world_.exchange(rank_, &call, [&](const auto& posted) {
    std::memmove(call.recv, call_of(posted[call.peer]).send, call.n * element_bytes(call));
  });
}

Result<void> ThreadGroup::send(const castor_collective& call) {
  world_.leave(rank_, call.peer, {static_cast<const char*>(call.send), call.n * element_bytes(call)});
  return world_.status();
}

Result<void> ThreadGroup::recv(const castor_collective& call) {
  CASTOR_ASSIGN(const std::string bytes, world_.take(call.peer, rank_));
  if (bytes.size() != call.n * element_bytes(call))
    return Error{ErrorKind::usage, "rank " + std::to_string(call.peer) + " sent " + std::to_string(bytes.size()) +
                                       " B where rank " + std::to_string(rank_) + " takes " +
                                       std::to_string(call.n * element_bytes(call))};
  std::memcpy(call.recv, bytes.data(), bytes.size());
  return {};
}

Result<void> ThreadGroup::agree(const castor_agreement& agreement) {
  std::vector<std::uint64_t> agreed;
  CASTOR_TRY(world_.exchange(rank_, &agreement, [&](const auto& posted) {
    for (std::uint32_t i = 0; i < agreement.n; ++i) {
      agreed.push_back(static_cast<const castor_agreement*>(posted[0])->values[i]);
      for (std::size_t other = 1; other < posted.size(); ++other)
        agreed[i] = combine(agreement.op, agreed[i], static_cast<const castor_agreement*>(posted[other])->values[i]);
    }
  }));
  std::copy(agreed.begin(), agreed.end(), agreement.values);
  return {};
}

Result<void> ThreadGroup::status(std::uint32_t) { return world_.status(); }

Result<void> ThreadGroup::abort(std::uint32_t, const char* why) {
  world_.abort(why);
  return {};
}

Result<void> on_ranks(std::uint32_t size,
                      const std::function<Result<void>(ThreadGroup& group, std::uint32_t rank)>& body) {
  ThreadWorld world(size);
  std::vector<Result<void>> outcomes(size);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        ThreadGroup group(world, rank);
        outcomes[rank] = body(group, rank);
        if (!outcomes[rank].ok()) world.abort(outcomes[rank].error().message);
      });
  }
  for (const auto& outcome : outcomes)
    if (!outcome.ok()) return outcome;
  return {};
}

}  // namespace castor::test
