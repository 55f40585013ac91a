// SPDX-License-Identifier: Apache-2.0
#include "team_directions.h"

#include <utility>

namespace castor {

void TeamDirections::add(TensorId tensor, const TrustTerms& terms, const LambCoefficients& coefficients,
                         const MeasuredPart& part, float* ratio) {
  std::shared_ptr<Sums>& sums = open_[tensor];
  if (part.begins()) {
    sums = std::make_shared<Sums>();
    sums->terms = terms, sums->ratio = ratio;
    sums->blocks.resize(n_norm_blocks(part.numel));
  }
  for (std::uint64_t i = 0; i < n_direction_pieces(part); ++i) {
    const DirectionPiece piece = direction_piece(part, i);
    if (piece.begins) sums->open = piece.ends ? nullptr : std::make_shared<DirectionRows>();
    work_->pieces.push_back({coefficients, piece, sums, sums->open});
  }
  if (!part.ends()) return;
  work_->complete.push_back(std::move(sums));
  open_.erase(tensor);
}

void TeamDirections::start(HostTeam& team, std::uint32_t urgency, std::vector<Event> after) {
  const auto work = std::exchange(work_, std::make_shared<Work>());
  if (done_.state() != nullptr) after.push_back(done_);
  HostTeam::Job norms;
  norms.urgency = urgency;
  norms.after = std::move(after);
  norms.n_parts = static_cast<std::uint32_t>(work->pieces.size());
  for (const Piece& piece : work->pieces) norms.touched_bytes += measured_bytes(piece.of.arrays);
  norms.run = [work](std::uint32_t piece) -> Result<void> {
    work->pieces[piece].run();
    return {};
  };
  done_ = team.add(std::move(norms));
  if (work->complete.empty()) return;
  HostTeam::Job ratios;
  ratios.urgency = urgency;
  ratios.after = {done_};
  ratios.run = [work](std::uint32_t) -> Result<void> {
    for (const auto& sums : work->complete) sums->write_ratio();
    return {};
  };
  done_ = team.add(std::move(ratios));
}

void TeamDirections::Piece::run() const {
  DirectionRows own;
  DirectionRows& all = rows ? *rows : own;
  sum_direction_rows(coefficients, of, all);
  if (of.ends) sums->blocks[of.block] = fold(all, of.end_row());
}

void TeamDirections::Sums::write_ratio() const {
  const auto [masters, directions] = add_direction_blocks(blocks);
  *ratio = trust_ratio(terms, masters, directions);
}

}  // namespace castor
