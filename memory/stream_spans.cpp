// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/stream_spans.h>

#include <algorithm>
#include <utility>

namespace castor {

void StreamSpans::end(Begun begun, SpanRecord what) {
  what.start_ns = begun.given_ns;
  what.end_ns = timeline_.now_ns();
  open_.push_back({what, std::move(begun.reached), stream_.record()});
  settle();
}

void StreamSpans::settle() {
  for (; !open_.empty() && open_.front().ended.ready(); open_.pop_front()) {
    auto& [what, begun, ended] = open_.front();
    what.start_ns = begun.reached_ns().value_or(what.start_ns);
    what.end_ns = std::max(what.start_ns, ended.reached_ns().value_or(what.end_ns));
    timeline_.record(what);
  }
}

}  // namespace castor
