// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/timeline.h>

#include <algorithm>
#include <string>
#include <utility>

#include <castor/memory/result.h>

namespace castor {

template <typename Record>
Timeline::Ring<Record>::Ring(std::size_t capacity) : records(capacity) {
  if (capacity == 0) throw ContractViolation("a timeline of 0 records");
}

template <typename Record>
std::vector<Record> Timeline::Ring<Record>::in_order() const {
  if (n_pushed <= records.size()) return {records.begin(), records.begin() + static_cast<std::ptrdiff_t>(n_pushed)};
  std::vector<Record> ordered(records.size());
  const auto oldest = records.begin() + static_cast<std::ptrdiff_t>(n_pushed % records.size());
  std::rotate_copy(records.begin(), oldest, records.end(), ordered.begin());
  return ordered;
}

Timeline::Timeline(Capacity capacity, Clock clock)
    : clock_(std::move(clock)),
      spans_(capacity.n_spans),
      samples_(capacity.n_samples),
      step_ends_ns_(capacity.n_steps) {}

void Timeline::record(const SpanRecord& span) {
  if (span.end_ns < span.start_ns)
    throw ContractViolation(std::string("a span of lane ") + name(span.lane) + " ends at " +
                            std::to_string(span.end_ns) + " ns, before its start at " + std::to_string(span.start_ns) +
                            " ns");
  const std::lock_guard lock(mutex_);
  spans_.push(span);
  total_bytes_[index(span.lane)] += span.n_bytes;
  total_ns_[index(span.lane)] += span.end_ns - span.start_ns;
}

void Timeline::sample(const std::array<std::uint64_t, kNTiers>& used_bytes) {
  const std::lock_guard lock(mutex_);
  samples_.push(
      {now_ns(), used_bytes});  // the clock is read under the lock, so samples are in the order of their times
}

void Timeline::end_step() {
  const std::lock_guard lock(mutex_);
  step_ends_ns_.push(now_ns());
}

std::vector<SpanRecord> Timeline::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_.in_order();
}

std::vector<SampleRecord> Timeline::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_.in_order();
}

std::vector<std::uint64_t> Timeline::step_ends_ns() const {
  const std::lock_guard lock(mutex_);
  return step_ends_ns_.in_order();
}

std::uint64_t Timeline::n_dropped_spans() const {
  const std::lock_guard lock(mutex_);
  return spans_.n_dropped();
}

std::uint64_t Timeline::n_dropped_samples() const {
  const std::lock_guard lock(mutex_);
  return samples_.n_dropped();
}

std::uint64_t Timeline::n_bytes(Lane lane) const {
  const std::lock_guard lock(mutex_);
  return total_bytes_[index(lane)];
}

double Timeline::seconds(Lane lane) const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(total_ns_[index(lane)]) * 1e-9;
}

void Span::end() noexcept {
  if (!timeline_) return;
  record_.end_ns = timeline_->now_ns();
  timeline_->record(record_);
}

}  // namespace castor
