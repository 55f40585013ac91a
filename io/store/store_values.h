// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "manifest.h"
#include "store_entry.h"
#include "stripes/stripe_set.h"

namespace castor {

/// The values of all keys, and their room.
///
/// Invariant: the room of a value of the last commit is neither written nor given back. Once frozen no room is given
/// back at all, and no put gets any.
/// Threads: under the store's mutex, which the functions of an operation (`place`, `find`, `give_up`) take themselves
/// where they need it: they call the file system without it.
class StoreValues {
 public:
  StoreValues(std::mutex& mutex, StripeSet& set) : mutex_(mutex), set_(set) {}

  /// The entry of `key`, created where there is none; its address is valid until it is empty and dropped.
  StoreEntry& entry(std::uint64_t key) { return entries_[key]; }
  /// Whether no operation of `key` is under way.
  bool rests(std::uint64_t key) const;
  /// Drops the entry of `key` if it has become empty.
  void drop_if_empty(std::uint64_t key, const StoreEntry& entry);
  /// Drops the value of `key`; where a commit holds it, the next one gives its room back. Requires: `key` rests.
  void remove(std::uint64_t key);

  /// The keys that hold a value, ascending.
  std::vector<std::uint64_t> keys() const;
  /// Errors: usage, where `key` holds nothing.
  Result<std::uint64_t> value_bytes(std::uint64_t key) const;

  /// Finds room for the value of a put: the old value's where that has the same size. The old value is lost from here
  /// on, unless a commit holds it. Errors: those of StripeSet::take; the reason of `freeze`.
  Result<void> place(const StoreOp& put);
  /// Checks that the key of a get holds a value of its size. Errors: usage; the error of the put that lost the value.
  Result<void> find(const StoreOp& get) const;
  /// Drops the value of a put that failed.
  void give_up(const StoreOp& put);

  // For commits, while no put runs:

  /// Adds every value to `manifest`. Errors: the reason of `freeze`; the error of a put that left a key without value.
  Result<void> describe(Manifest& manifest) const;
  /// Marks the values as those of the last commit. The room of the earlier ones is the next put's, or is given back.
  void promote();
  /// Keeps everything on the drive as it is from now on, because of `why`.
  void freeze(const Error& why);
  /// Takes over the values of `manifest`. Requires: before anything else. Errors: io, where a value does not fit its
  /// extents, or those cannot be claimed.
  Result<void> restore(const Manifest& manifest);
  /// After restore: gives back the room of all bytes that no value holds.
  void drop_unclaimed();

 private:
  Result<std::optional<StoredValue>> make_way(const StoreOp& put);
  void drop(std::uint64_t key, std::optional<StoredValue>& value);
  void promote(std::uint64_t key, StoreEntry& entry);

  std::mutex& mutex_;
  StripeSet& set_;
  std::unordered_map<std::uint64_t, StoreEntry> entries_;
  std::optional<Error> frozen_;           // why
  std::atomic<bool> keeps_room_ = false;  // frozen, for those without the mutex
};

}  // namespace castor
