// SPDX-License-Identifier: Apache-2.0
#include "store_driver.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "bench/common/cpu_time.h"
#include "bench/common/pattern.h"

namespace castor::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kSeed = 20211;

}  // namespace

std::uint64_t StoreDriver::memory_bytes(const Shape& shape) {
  return std::max(shape.n_in_flight * align_up(shape.tensor_bytes, kBufferAlignBytes), shape.memory_bytes);
}

StoreDriver::StoreDriver(TensorStore& store, const Shape& shape, BufferView memory, std::function<bool()> stopped)
    : store_(store), shape_(shape), stopped_(std::move(stopped)), slots_(shape.n_in_flight), random_(kSeed) {
  const std::uint64_t step = align_up(shape.tensor_bytes, kBufferAlignBytes);
  for (std::uint64_t at = 0; at + step <= memory_bytes(shape); at += step) {
    parts_.push_back(memory.part(at, shape.tensor_bytes));
    fill_pattern(parts_.back(), at / step, 0);
  }
  if (shape.verify) versions_.assign(shape.n_tensors, 0);
}

Result<Sample> StoreDriver::fill() { return drive(Rw::write, false, {shape_.n_tensors, 0}); }

Result<Sample> StoreDriver::read_all() { return drive(Rw::read, false, {shape_.n_tensors, 0}); }

Result<Sample> StoreDriver::run(Rw rw, double seconds) { return drive(rw, shape_.random, {0, seconds}); }

Result<Sample> StoreDriver::drive(Rw rw, bool random, const Limit& limit) {
  next_key_[0] = 0;
  next_key_[1] = rw == Rw::mixed ? shape_.n_tensors / 2 : 0;  // half the keys away from the gets, so that no get waits
                                                              // for a put
  n_started_ = 0;
  moved_bytes_ = 0;
  const double cpu_begin_s = cpu_time_s();
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.seconds));
  CASTOR_TRY(move_until(rw, random,
                        [&] { return limit.n_tensors > 0 ? n_started_ >= limit.n_tensors : Clock::now() >= end; }));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return Sample{moved_bytes_, seconds, cpu_time_s() - cpu_begin_s};
}

Result<void> StoreDriver::move_until(Rw rw, bool random, const std::function<bool()>& over) {
  const auto restart = [&](Slot& slot) {
    if (!over() && !stopped_()) start(slot, rw, random);
  };
  for (Slot& slot : slots_) restart(slot);
  while (const Slot* awaited = next_awaited()) {
    (void)awaited->done.wait();  // the slot keeps the outcome; take_landed returns it
    if (auto taken = take_landed(restart); !taken.ok()) return (void)settle(), taken;
  }
  return {};
}

/// Takes every operation that has ended, not only the oldest, and starts its successor at once.
Result<void> StoreDriver::take_landed(const std::function<void(Slot&)>& restart) {
  for (Slot& slot : slots_) {
    if (!slot.busy || !slot.done.ready()) continue;
    CASTOR_TRY(finish(slot));
    restart(slot);
  }
  return {};
}

std::uint64_t StoreDriver::next_key(bool reads, bool random) {
  return random ? random_() % shape_.n_tensors : next_key_[reads ? 0 : 1]++ % shape_.n_tensors;
}

void StoreDriver::start(Slot& slot, Rw rw, bool random) {
  slot.turn = n_started_++;
  slot.reads = rw == Rw::read || (rw == Rw::mixed && slot.turn % 2 == 0);
  slot.key = next_key(slot.reads, random);
  slot.busy = true;
  slot.bytes = parts_.front();
  parts_.pop_front();
  if (shape_.verify) {
    slot.version = slot.reads ? versions_[slot.key] : ++versions_[slot.key];
    if (!slot.reads) fill_pattern(slot.bytes, slot.key, slot.version);
  }
  slot.done = slot.reads ? store_.get(slot.key, slot.bytes) : store_.put(slot.key, slot.bytes);
}

/// The operation to wait for: the newest that still has two thirds of the slots started behind it. The drive keeps work
/// while this thread starts others, and this thread wakes once for many operations.
StoreDriver::Slot* StoreDriver::next_awaited() {
  const std::uint64_t n_behind = slots_.size() * 2 / 3;
  Slot* oldest = nullptr;
  Slot* awaited = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.busy) continue;
    if (!oldest || slot.turn < oldest->turn) oldest = &slot;
    if (slot.turn + n_behind < n_started_ && (!awaited || slot.turn > awaited->turn)) awaited = &slot;
  }
  return awaited ? awaited : oldest;
}

Result<void> StoreDriver::finish(Slot& slot) {
  slot.busy = false;
  parts_.push_back(slot.bytes);
  CASTOR_TRY(std::exchange(slot.done, Event()).wait());
  moved_bytes_ += slot.bytes.n_bytes;
  if (!shape_.verify || !slot.reads) return {};
  const auto at = find_difference(slot.bytes, slot.key, slot.version);
  if (!at) return {};
  return Error{ErrorKind::io, "tensor " + std::to_string(slot.key) + " was read with another byte " +
                                  std::to_string(*at) + " of " + std::to_string(slot.bytes.n_bytes) +
                                  " than was written; do not trust this drive or this memory"};
}

/// Waits for all operations: until then the store uses the memory.
Result<void> StoreDriver::settle() {
  for (Slot& slot : slots_)
    if (slot.busy) (void)finish(slot);
  return store_.drain();
}

}  // namespace castor::bench
