// SPDX-License-Identifier: Apache-2.0
#include "store_piece.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace castor {
std::vector<PieceRange> plan_pieces(std::uint64_t n_bytes) {
  std::vector<PieceRange> pieces;
  pieces.reserve(n_bytes / kBlockBytes + 2);
  for (std::uint64_t at = 0; at < n_bytes; at += pieces.back().n_bytes) {
    const auto left = n_bytes - at;
    const auto whole_pages = left / kBufferAlignBytes * kBufferAlignBytes;
    pieces.push_back({at, whole_pages == 0 ? left : std::min(whole_pages, kBlockBytes)});
  }
  return pieces;
}

Result<BufferView> StorePiece::stage(std::uint64_t memory_align_bytes, MemoryResource& memory) {
  asked_bytes_ = align_up(bytes_.n_bytes, kBufferAlignBytes);
  const bool fits = reinterpret_cast<std::uintptr_t>(bytes_.data) % memory_align_bytes == 0;
  if (fits && asked_bytes_ == bytes_.n_bytes) return bytes_;
  CASTOR_ASSIGN(staged_, Buffer::allocate(memory, asked_bytes_));
  return staged_.view();
}

void StorePiece::fill_staged() const {
  if (!staged_) return;
  std::memcpy(staged_.data(), bytes_.data, bytes_.n_bytes);
  std::memset(staged_.data() + bytes_.n_bytes, 0, asked_bytes_ - bytes_.n_bytes);
}

void StorePiece::empty_staged() const {
  if (staged_) std::memcpy(bytes_.data, staged_.data(), bytes_.n_bytes);
}

void StorePiece::fail(const Error& error) noexcept {
  outcome_ = error;
  landing_->push(this);
}

std::optional<IoRequest> StorePiece::on_complete(const IoOutcome& outcome) noexcept {
  outcome_ = io_result(request_, outcome);
  landing_->push(this);
  return std::nullopt;
}

Result<std::uint64_t> StorePiece::moved_bytes() const {
  if (!outcome_->ok() || outcome_->value() == asked_bytes_) return *outcome_;
  return Error{ErrorKind::io, "a transfer of " + std::to_string(asked_bytes_) + " bytes moved " +
                                  std::to_string(outcome_->value()) +
                                  " and was reported as complete; try another engine"};
}

}  // namespace castor
