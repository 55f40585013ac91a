// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <castor/io/direct_file.h>
#include <castor/io/io_request.h>
#include <castor/memory/memory_resource.h>

#include "store_entry.h"
#include "store_op.h"
#include "stripes/stripe_layout.h"

namespace castor {

class StorePiece;

/// Takes the outcome of a piece's block and gives it the next. (StoreLane)
class PieceSource {
 public:
  virtual ~PieceSource() = default;
  /// The block of `piece` has ended, with `error` if it failed. Gives the piece another block and returns its request;
  /// nothing where there is none, and then `piece` is idle.
  virtual std::optional<IoRequest> landed(StorePiece& piece, std::uint64_t moved_bytes, std::optional<Error> error) = 0;
};

/// Moves the blocks of one volume, one at a time: the caller's bytes, or a copy of them where the drive cannot take
/// them as they are.
///
/// On the engine's thread: before a write it makes the block's checksum, unless the caller of the put passed it; after
/// a read it verifies the checksum over the bytes that the drive has just written to memory.
class StorePiece final : public IoSink {
 public:
  struct Options {
    bool checksums = true;
    std::chrono::milliseconds timeout{0};
  };
  StorePiece(PieceSource& source, const DirectFile& file, MemoryResource& memory, const Options& options)
      : source_(source), file_(file), memory_(memory), options_(options) {}

  StoreOp& op() const { return *op_; }
  /// Takes block `index` of `op`; returns the request that moves it. Where memory for the copy is lacking, that is a
  /// request of no bytes, and PieceSource::landed gets the error as it gets a drive's.
  const IoRequest& take(StoreOp& op, std::size_t index);

  void on_start(const IoRequest& request) noexcept override;
  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override;

 private:
  Result<void> stage();
  IoRequest make_request() const;
  Result<void> accept(const IoOutcome& outcome);
  Result<void> verify();
  const ValueBlock& block() const { return op_->blocks[index_]; }
  std::uint64_t& stored_checksum() const { return op_->entry->value->checksums[index_]; }

  PieceSource& source_;
  const DirectFile& file_;
  MemoryResource& memory_;
  const Options options_;

  StoreOp* op_ = nullptr;
  std::size_t index_ = 0;  ///< of the block, and so of its checksum
  BufferView bytes_;       ///< the caller's
  bool staged_ = false;    ///< the copy moves in their place
  Buffer copy_;
  Result<void> stage_outcome_;
  IoRequest request_;
};

}  // namespace castor
