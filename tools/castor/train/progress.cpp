// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>

#include <ostream>

#include <castor/memory/bytes.h>

namespace castor::train {
namespace {

constexpr double kTerminalSeconds = 0.1, kLogSeconds = 2;
constexpr std::int64_t kLogSteps = 10;

}  // namespace

bool Progress::due(std::int64_t step, double now_s) const {
  if (step == 1 || step == n_steps_) return true;
  if (in_place_) return now_s - last_s_ >= kTerminalSeconds;
  return step - last_step_ >= kLogSteps || now_s - last_s_ >= kLogSeconds;
}

void Progress::update(const TrainRecord& record, double now_s) {
  const std::int64_t step = record.n_steps();
  if (!due(step, now_s)) return;
  last_step_ = step, last_s_ = now_s;
  stream_ << (in_place_ ? "\r\x1b[2K" : "") << progress_line(record, n_steps_) << (in_place_ ? "" : "\n") << std::flush;
  line_open_ = in_place_;
}

void Progress::note(const std::string& line) {
  finish();
  stream_ << line << '\n' << std::flush;
}

void Progress::finish() {
  if (line_open_) stream_ << '\n' << std::flush;
  line_open_ = false;
}

std::string progress_line(const TrainRecord& record, std::int64_t n_steps) {
  const double seconds = record.step_s.back();
  std::string line = fmt::format("step {}/{}  loss {:.4f}", record.n_steps(), n_steps, record.losses.back());
  if (!record.grad_norms.empty()) line += fmt::format("  norm {:.4g}", record.grad_norms.back());
  line += fmt::format("  {:.0f} tokens/s", seconds > 0 ? static_cast<double>(record.tokens_per_step) / seconds : 0);
  for (const Tier tier : kTiers) {
    const std::uint64_t used = record.last.used_bytes[index(tier)];
    const auto& budget = record.last.budget_bytes[index(tier)];
    if (used == 0 && !budget) continue;
    line += fmt::format("  {} {}{}", name(tier), format_bytes(used), budget ? " of " + format_bytes(*budget) : "");
  }
  return line;
}

std::string saved_line(std::int64_t n_steps, const SavedBytes& saved) {
  const std::string line = fmt::format("saved after step {}: {} written", n_steps, format_bytes(saved.written_bytes));
  return saved.referenced_bytes == 0 ? line : line + ", " + format_bytes(saved.referenced_bytes) + " referenced";
}

}  // namespace castor::train
