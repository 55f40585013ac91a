// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>

namespace castor::bench {

/// The line that shows how far a long measurement is: rewritten in place on a terminal, else one line now and then.
class StatusLine {
 public:
  /// `stream` is borrowed.
  StatusLine(std::ostream& stream, bool in_place) : stream_(stream), in_place_(in_place) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Shows `text`; where lines stay, only if the last is two seconds old. `now_s` is any steady clock.
  void show(const std::string& text, double now_s);
  /// Removes a line that is rewritten in place, so that what follows stands there.
  void clear();

 private:
  std::ostream& stream_;
  const bool in_place_;
  bool shown_ = false;
  double last_s_ = 0;
};

}  // namespace castor::bench
