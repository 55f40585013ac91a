// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <castor/io/direct_file.h>
#include <castor/io/extent_allocator.h>
#include <castor/memory/budget.h>

namespace castor {

/// Where a value lies: which of the store's files, and where in it.
struct Placement {
  std::size_t file = 0;
  Extent extent;
};

/// The files of a store and who holds which bytes of them, counted against the nvme budget.
///
/// Threads: any thread may call anything.
class StoreSpace {
 public:
  /// One unnamed file in each folder. `budget` is borrowed; null = no limit. Errors: those of
  /// DirectFile::create_unnamed.
  static Result<std::unique_ptr<StoreSpace>> open(const std::vector<std::string>& folders, Budget* budget);
  /// Gives what is still held back to the budget.
  ~StoreSpace();

  /// Room for `n_bytes` of `key` in the file that holds the fewest bytes, set aside by its file system.
  /// Errors: does_not_fit (the budget), io (the folder is full); then nothing has changed.
  Result<Placement> take(std::uint64_t key, std::uint64_t n_bytes);
  /// Gives the room back to file system, file and budget, in this order: nobody can hold bytes that are still to be
  /// punched.
  void give_back(const Placement& placement);

  const DirectFile& file(const Placement& placement) const { return volumes_[placement.file]->file; }
  std::uint64_t allocated_bytes() const;
  std::uint64_t peak_allocated_bytes() const;
  /// A sentence for each folder without direct I/O.
  std::vector<std::string> warnings() const;
  /// The bytes that `n_bytes` take.
  static std::uint64_t whole_bytes(std::uint64_t n_bytes);

 private:
  struct Volume {
    explicit Volume(DirectFile opened) : file(std::move(opened)) {}
    DirectFile file;
    ExtentAllocator extents;
  };

  explicit StoreSpace(Budget* budget) : budget_(budget) {}
  Result<void> count_in(std::uint64_t key, std::uint64_t n_bytes);
  void count_out(std::uint64_t n_bytes);
  Result<Placement> allocate(std::uint64_t n_bytes);
  void release(const Placement& placement);

  Budget* const budget_;
  std::vector<std::unique_ptr<Volume>> volumes_;  // fixed once opened; the mutex guards their extents
  mutable std::mutex mutex_;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t peak_allocated_bytes_ = 0;
};

}  // namespace castor
