// SPDX-License-Identifier: Apache-2.0
#include "store_values.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace castor {
namespace {

Error holds_nothing(std::uint64_t key) {
  return {ErrorKind::usage, "key " + std::to_string(key) + " holds nothing; put it first"};
}

Error no_such_place(const ManifestValue& stored) {
  return {ErrorKind::io, "the manifest says that key " + std::to_string(stored.key) + " has " +
                             std::to_string(stored.n_bytes) +
                             " bytes, which its extents do not contain; restore a copy of the folders"};
}

}  // namespace

bool StoreValues::rests(std::uint64_t key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() || found->second.ops.empty();
}

void StoreValues::drop_if_empty(std::uint64_t key, const StoreEntry& entry) {
  if (entry.empty()) entries_.erase(key);
}

void StoreValues::remove(std::uint64_t key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  StoreEntry& entry = found->second;
  if (std::exchange(entry.value_is_durable, false)) entry.durable = std::exchange(entry.value, std::nullopt);
  entry.lost.reset();
  drop(key, entry.value);
  drop(key, entry.spare);
  if (entry.empty()) entries_.erase(found);
}

std::vector<std::uint64_t> StoreValues::keys() const {
  std::vector<std::uint64_t> keys;
  for (const auto& [key, entry] : entries_)
    if (entry.value) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

Result<std::uint64_t> StoreValues::value_bytes(std::uint64_t key) const {
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.value) return found->second.value->n_bytes;
  return holds_nothing(key);
}

Result<void> StoreValues::place(const StoreOp& put) {
  CASTOR_ASSIGN(auto unsuited, make_way(put));
  drop(put.key, unsuited);
  std::optional<Placement> taken;
  if (!put.entry->value) {
    CASTOR_ASSIGN(taken, set_.take(put.key, put.bytes.n_bytes));
  }
  const std::lock_guard lock(mutex_);
  auto& value = put.entry->value;
  if (taken) value = StoredValue{0, std::move(*taken), {}};
  value->n_bytes = put.bytes.n_bytes;
  return {};
}

/// Leaves the entry with room that suits the new value, or with none; returns the value whose room does not suit.
Result<std::optional<StoredValue>> StoreValues::make_way(const StoreOp& put) {
  const std::lock_guard lock(mutex_);
  put.entry->use_other_slot();  // first: a put that is refused must not cost the value that the last commit holds
  if (frozen_) return *frozen_;
  auto& value = put.entry->value;
  const bool suits = value && value_room_bytes(value->n_bytes) == value_room_bytes(put.bytes.n_bytes) &&
                     !set_.worth_moving(value->place);
  return suits ? std::nullopt : std::exchange(value, std::nullopt);
}

Result<void> StoreValues::find(const StoreOp& get) const {
  const StoreEntry& entry = *get.entry;
  if (entry.lost) return *entry.lost;
  if (!entry.value) return holds_nothing(get.key);
  if (entry.value->n_bytes == get.bytes.n_bytes) return {};
  return Error{ErrorKind::usage, "key " + std::to_string(get.key) + " holds " + std::to_string(entry.value->n_bytes) +
                                     " bytes, " + std::to_string(get.bytes.n_bytes) +
                                     " were asked for; ask for all of them"};
}

void StoreValues::give_up(const StoreOp& put) {
  std::unique_lock lock(mutex_);
  auto lost = std::exchange(put.entry->value, std::nullopt);
  lock.unlock();
  drop(put.key, lost);
}

/// Gives the room of `value` back, unless it may belong to the commit that stands.
void StoreValues::drop(std::uint64_t key, std::optional<StoredValue>& value) {
  if (value && !keeps_room_) set_.give_back(key, value->place);
  value.reset();
}

Result<void> StoreValues::describe(Manifest& manifest) const {
  if (frozen_) return *frozen_;
  for (const auto& [key, entry] : entries_) {
    if (entry.lost) return *entry.lost;
    if (!entry.value) continue;
    manifest.values.push_back({key, entry.value->n_bytes, entry.value->place.extents, entry.value->checksums});
  }
  return {};
}

void StoreValues::promote() {
  for (auto& [key, entry] : entries_) promote(key, entry);
  for (auto at = entries_.begin(); at != entries_.end();) at = at->second.empty() ? entries_.erase(at) : std::next(at);
}

void StoreValues::promote(std::uint64_t key, StoreEntry& entry) {
  if (entry.value && entry.durable &&
      value_room_bytes(entry.value->n_bytes) == value_room_bytes(entry.durable->n_bytes))
    entry.spare = std::exchange(entry.durable, std::nullopt);
  drop(key, entry.durable);
  if (!entry.value) drop(key, entry.spare);
  entry.value_is_durable = entry.value.has_value();
}

void StoreValues::freeze(const Error& why) {
  frozen_ = why;
  keeps_room_ = true;
}

Result<void> StoreValues::restore(const Manifest& manifest) {
  for (const auto& stored : manifest.values) {
    StoreEntry& entry = entries_[stored.key];
    const Placement place{stored.extents};
    if (!holds_value(place, stored.n_bytes, set_.block_bytes())) return no_such_place(stored);
    CASTOR_TRY(set_.claim(stored.key, place));
    entry.value = StoredValue{stored.n_bytes, place, stored.checksums};
    entry.value_is_durable = true;
  }
  return {};
}

void StoreValues::drop_unclaimed() { set_.drop_unclaimed(); }

}  // namespace castor
