// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <castor/io/tensor_store.h>

#include "bench/common/files.h"
#include "store_driver.h"

namespace castor::bench {

/// The options that the stores of all cases share.
struct SubjectOptions {
  std::vector<std::string> folders;
  EngineChoice engine = EngineChoice::best;
  std::uint64_t span_bytes = 0;
  bool verify = false;
};

/// The driver's shape for `one` over `options.span_bytes`.
StoreDriver::Shape shape_of(const SubjectOptions& options, const IoCase& one);

/// The measured store, filled with tensors.
class Subject {
 public:
  /// Opens a store for `one` and puts as many tensors as the span holds. `memory` is borrowed.
  /// Errors: those of the store.
  static Result<std::unique_ptr<Subject>> open(const SubjectOptions& options, const IoCase& one, BufferView memory,
                                               std::function<bool()> stopped);

  ~Subject();
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  StoreDriver& driver() { return driver_; }
  const TensorStore& store() const { return *store_; }
  /// The files that hold the store's bytes.
  const Region& region() const { return region_; }

  /// Call after the region was written past the store: the stored values are lost.
  void spoil() { intact_ = false; }
  /// Puts every tensor again if `spoil` was called. Errors: as open.
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
