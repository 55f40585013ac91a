// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <ostream>
#include <string_view>
#include <vector>

#include <castor/memory/bytes.h>
#include <castor/memory/text.h>

namespace castor::train {
namespace {

constexpr std::size_t kAnyLength = std::numeric_limits<std::size_t>::max();
constexpr const char* kBetween = "  ";
constexpr double kTerminalSeconds = 0.1, kLogSeconds = 2;
constexpr std::int64_t kLogSteps = 10;

}  // namespace

bool Progress::due(std::int64_t step, double now_s) const {
  if (step == 1 || step == n_steps_) return true;
  if (place_.in_place) return now_s - last_s_ >= kTerminalSeconds;
  return step - last_step_ >= kLogSteps || now_s - last_s_ >= kLogSeconds;
}

void Progress::update(const TrainRecord& record, double now_s) {
  const std::int64_t step = record.n_steps();
  if (!due(step, now_s) || !takes_line()) return;
  if (!waiting_.empty()) finish();
  last_step_ = step, last_s_ = now_s;
  const std::string line = progress_line(record, n_steps_, place_.columns ? place_.columns() : kAnyLength);
  stream_ << (place_.in_place ? "\r\x1b[2K" : "") << line << (place_.in_place ? "" : "\n") << std::flush;
  line_open_ = place_.in_place;
}

void Progress::note(const std::string& line) {
  waiting_ += line + '\n';
  if (!takes_line()) return;
  finish();
}

void Progress::finish() {
  stream_ << (std::exchange(line_open_, false) ? "\n" : "") << std::exchange(waiting_, "") << std::flush;
}

std::string progress_line(const TrainRecord& record, std::int64_t n_steps, std::size_t columns) {
  const double seconds = record.step_s.back();
  std::vector<std::string> parts = {fmt::format("step {}/{}", record.n_steps(), n_steps),
                                    fmt::format("loss {:.4f}", record.losses.back())};
  if (!record.grad_norms.empty()) parts.push_back(fmt::format("norm {:.4g}", record.grad_norms.back()));
  parts.push_back(
      fmt::format("{:.0f} tokens/s", seconds > 0 ? static_cast<double>(record.tokens_per_step) / seconds : 0));
  for (const Tier tier : kTiers) {
    const std::uint64_t used = record.last.used_bytes[index(tier)];
    const auto& budget = record.last.budget_bytes[index(tier)];
    if (used == 0 && !budget) continue;
    parts.push_back(
        fmt::format("{} {}{}", name(tier), format_bytes(used), budget ? " of " + format_bytes(*budget) : ""));
  }
  std::string line = join(parts, kBetween, kBetween);
  while (line.size() > columns && parts.size() > 1) {
    parts.pop_back();
    line = join(parts, kBetween, kBetween);
  }
  return line.substr(0, columns);
}

ProgressPlace standard_error() {
  const auto takes_line = [] {
    pollfd stream = {STDERR_FILENO, POLLOUT, 0};
    return poll(&stream, 1, 0) != 0;  // also where that cannot be known, or the reader is gone
  };
  if (isatty(STDERR_FILENO) == 0) return {.takes_line = takes_line};
  const char* const term = std::getenv("TERM");
  const bool rewrites = term != nullptr && std::string_view(term) != "dumb";
  const auto columns = [] {
    winsize size = {};
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? static_cast<std::size_t>(size.ws_col) - 1 : kAnyLength;  // the last column may wrap
  };
  return {rewrites, columns, takes_line};
}

std::string saved_line(std::int64_t n_steps, const SavedBytes& saved) {
  const std::string line = fmt::format("saved after step {}: {} written", n_steps, format_bytes(saved.written_bytes));
  return saved.referenced_bytes == 0 ? line : line + ", " + format_bytes(saved.referenced_bytes) + " referenced";
}

}  // namespace castor::train
