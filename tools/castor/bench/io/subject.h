// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <castor/io/tensor_store.h>

#include "bench/common/files.h"
#include "store_driver.h"

namespace castor::bench {

/// What the stores of all cases have in common.
struct SubjectOptions {
  std::vector<std::string> folders;
  EngineChoice engine = EngineChoice::best;
  std::uint64_t span_bytes = 0;
  bool verify = false;
};

/// How `one` is driven over `options.span_bytes`.
StoreDriver::Shape shape_of(const SubjectOptions& options, const IoCase& one);

/// The store that is measured, filled with tensors.
class Subject {
 public:
  /// Opens a store as `one` wants it and puts as many tensors as the span holds. `memory` is borrowed.
  /// Errors: those of the store.
  static Result<std::unique_ptr<Subject>> open(const SubjectOptions& options, const IoCase& one, BufferView memory,
                                               std::function<bool()> stopped);

  ~Subject();
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  StoreDriver& driver() { return driver_; }
  const TensorStore& store() const { return *store_; }
  /// Where its bytes lie.
  const Region& region() const { return region_; }

  /// Says that somebody else has written to the region: what is stored is lost.
  void spoil() { intact_ = false; }
  /// Puts every tensor again where it was spoilt. Errors: as open.
  Result<void> make_intact();

 private:
  Subject(std::unique_ptr<TensorStore> store, const StoreDriver::Shape& shape, BufferView memory,
          std::function<bool()> stopped)
      : store_(std::move(store)), driver_(*store_, shape, memory, std::move(stopped)) {}

  std::unique_ptr<TensorStore> store_;
  StoreDriver driver_;
  Region region_;
  BufferView memory_;
  bool intact_ = false;
};

}  // namespace castor::bench
