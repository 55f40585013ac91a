// SPDX-License-Identifier: Apache-2.0
#include "store_piece.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include <castor/memory/bytes.h>

#include "checksum.h"

namespace castor {
namespace {

std::string hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

const IoRequest& StorePiece::take(StoreOp& op, std::size_t index) {
  op_ = &op;
  index_ = index;
  bytes_ = op.bytes.part(block().offset_bytes, block().n_bytes);
  stage_outcome_ = stage();
  request_ = make_request();
  request_.deadline = deadline_after(options_.timeout);
  return request_;
}

IoRequest StorePiece::make_request() const {
  if (!stage_outcome_.ok()) return file_.read_request(0, {});
  const auto moving = staged_ ? copy_.view().part(0, align_up(bytes_.n_bytes, kBufferAlignBytes)) : bytes_;
  const auto offset_bytes = block().file_offset_bytes;
  return op_->kind == StoreOp::Kind::put ? file_.write_request(offset_bytes, moving)
                                         : file_.read_request(offset_bytes, moving);
}

/// The drive takes whole pages at aligned addresses; other blocks go through the copy.
Result<void> StorePiece::stage() {
  const bool suits = reinterpret_cast<std::uintptr_t>(bytes_.data) % file_.memory_align_bytes() == 0;
  const auto whole_bytes = align_up(bytes_.n_bytes, kBufferAlignBytes);
  staged_ = !suits || whole_bytes != bytes_.n_bytes;
  if (!staged_ || copy_.n_bytes() >= whole_bytes) return {};
  CASTOR_ASSIGN(copy_, Buffer::allocate(memory_, whole_bytes));
  return {};
}

void StorePiece::on_start(const IoRequest& request) noexcept {
  if (request.op != IoOp::write) return;
  if (options_.checksums) stored_checksum() = op_->checksums.empty() ? checksum(bytes_) : op_->checksums[index_];
  if (!staged_) return;
  std::memcpy(copy_.data(), bytes_.data, bytes_.n_bytes);
  std::memset(copy_.data() + bytes_.n_bytes, 0, request.bytes.n_bytes - bytes_.n_bytes);
}

std::optional<IoRequest> StorePiece::on_complete(const IoOutcome& outcome) noexcept {
  const auto accepted = accept(outcome);
  return source_.landed(*this, outcome.moved_bytes, accepted.ok() ? std::nullopt : std::optional(accepted.error()));
}

Result<void> StorePiece::accept(const IoOutcome& outcome) {
  CASTOR_TRY(stage_outcome_);
  if (!outcome.ok()) return io_error(request_, outcome);
  if (outcome.moved_bytes != request_.bytes.n_bytes)
    return Error{ErrorKind::io, "a transfer of " + std::to_string(request_.bytes.n_bytes) + " bytes moved " +
                                    std::to_string(outcome.moved_bytes) +
                                    " and was reported as complete; try another engine"};
  if (request_.op == IoOp::write) return {};
  if (staged_) std::memcpy(bytes_.data, copy_.data(), bytes_.n_bytes);
  return options_.checksums ? verify() : Result<void>();
}

Result<void> StorePiece::verify() {
  const auto want = stored_checksum();
  const auto have = checksum(bytes_);
  if (have == want) return {};
  return Error{ErrorKind::io, "the " + std::to_string(bytes_.n_bytes) + " bytes at offset " +
                                  std::to_string(block().offset_bytes) + " of the value, read from " + file_.path() +
                                  ", are not those that were put (xxh3-64 " + hex(have) + " instead of " + hex(want) +
                                  "); the drive corrupts data: name a folder on another"};
}

}  // namespace castor
