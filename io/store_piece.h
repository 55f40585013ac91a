// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <castor/io/io_request.h>
#include <castor/memory/bytes.h>

#include "serial_worker.h"

namespace castor {

/// A value moves, and is checked, in blocks of this many bytes.
inline constexpr std::uint64_t kBlockBytes = kMiB;

/// The part of a value that one request moves.
struct PieceRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t n_bytes = 0;
};

/// Cuts a value of `n_bytes`: whole blocks, then the rest in whole pages, then what is left of a page as a piece of its
/// own, so that only that last one needs a padded copy.
std::vector<PieceRange> plan_pieces(std::uint64_t n_bytes);

struct StoreOp;

/// One request of a put or get: the caller's bytes, and the page or block that stands in for them where the drive
/// cannot take them as they are.
///
/// Threads: the starter until the request is on its way, the engine while it is, the lander afterwards.
class StorePiece final : public IoSink {
 public:
  using Landing = SerialWorker<StorePiece*>;

  StorePiece(StoreOp& op, std::size_t index, PieceRange range, BufferView bytes, Landing& landing)
      : op_(&op), index_(index), range_(range), bytes_(bytes), landing_(&landing) {}

  StoreOp& op() const { return *op_; }
  /// Which of the value's pieces, and so which of its checksums.
  std::size_t index() const { return index_; }
  const PieceRange& range() const { return range_; }
  BufferView bytes() const { return bytes_; }

  /// What the drive reads or writes: the caller's bytes where address and length suit it, else a padded copy from
  /// `memory`. Errors: does_not_fit, no memory for it.
  Result<BufferView> stage(std::uint64_t memory_align_bytes, MemoryResource& memory);
  /// Puts the caller's bytes into the padded copy, if there is one, with zeros behind them.
  void fill_staged() const;
  /// Takes them out again.
  void empty_staged() const;

  /// Keeps the request that goes to the engine, for its errors.
  const IoRequest& sent(const IoRequest& request) { return request_ = request; }
  /// Ends it without an engine.
  void fail(const Error& error) noexcept;
  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override;
  /// The bytes moved; fewer than were staged are an error. Requires: completed.
  Result<std::uint64_t> moved_bytes() const;
  void drop_staged() { staged_ = Buffer(); }

 private:
  StoreOp* op_;
  std::size_t index_;
  PieceRange range_;
  BufferView bytes_;
  Landing* landing_;
  Buffer staged_;
  IoRequest request_;
  std::uint64_t asked_bytes_ = 0;
  std::optional<Result<std::uint64_t>> outcome_;
};

}  // namespace castor
