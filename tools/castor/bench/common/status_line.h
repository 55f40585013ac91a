// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>

namespace castor::bench {

/// The progress line of a long measurement: rewritten in place on a terminal, otherwise a new line now and then.
class StatusLine {
 public:
  /// `stream` is borrowed.
  StatusLine(std::ostream& stream, bool in_place) : stream_(stream), in_place_(in_place) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Shows `text`; if lines are not rewritten, only if the last is two seconds old. `now_s` is any steady clock.
  void show(const std::string& text, double now_s);
  /// Removes a line that is rewritten in place, so that the next output starts in its place.
  void clear();

 private:
  std::ostream& stream_;
  const bool in_place_;
  bool shown_ = false;
  double last_s_ = 0;
};

}  // namespace castor::bench
