// SPDX-License-Identifier: Apache-2.0
#include "status_line.h"

#include <ostream>

namespace castor::bench {
namespace {

constexpr double kLogSeconds = 2;
constexpr const char* kEmptyLine = "\r\x1b[2K";

}  // namespace

void StatusLine::show(const std::string& text, double now_s) {
  if (!in_place_ && shown_ && now_s - last_s_ < kLogSeconds) return;
  stream_ << (in_place_ ? kEmptyLine : "") << text << (in_place_ ? "" : "\n") << std::flush;
  shown_ = true;
  last_s_ = now_s;
}

void StatusLine::clear() {
  if (in_place_ && shown_) stream_ << kEmptyLine << std::flush;
  shown_ = shown_ && !in_place_;
}

}  // namespace castor::bench
