// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <castor/memory/clock.h>
#include <castor/memory/tier.h>

namespace castor {

/// The kind of work of a span, one row of the picture each. `wait` is the training thread waiting.
enum class Lane : std::uint8_t { compute, h2d, d2h, nvme_read, nvme_write, host_update, wait };

inline constexpr std::size_t kNLanes = 7;
inline constexpr std::array<Lane, kNLanes> kLanes = {Lane::compute,    Lane::h2d,         Lane::d2h, Lane::nvme_read,
                                                     Lane::nvme_write, Lane::host_update, Lane::wait};

/// `compute`, `h2d`, `d2h`, `nvme_read`, `nvme_write`, `host_update` or `wait`, as trace files spell them.
const char* name(Lane lane);

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

/// The part of a step that a span of `compute` belongs to; `none` on other lanes, whose names say it.
enum class Phase : std::uint8_t { none, forward, backward, update };

/// `` (for none), `forward`, `backward` or `update`, as trace files spell them.
const char* name(Phase phase);

/// One piece of work: from `start_ns` to `end_ns` of the timeline's clock, for chunk or unit `id`, moving `n_bytes` (0
/// if none).
struct SpanRecord {
  Lane lane = Lane::compute;
  std::uint32_t id = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t n_bytes = 0;
  Phase phase = Phase::none;
};

/// The bytes that every tier held at one moment; indexed by index(Tier).
struct SampleRecord {
  std::uint64_t t_ns = 0;
  std::array<std::uint64_t, kNTiers> used_bytes{};
};

/// Records which work ran when and on which lane, the bytes that the tiers held, and the ends of steps, in memory that
/// is reserved once.
///
/// Each kind of record has a ring of its own: when it is full the oldest record gives way; lost spans and samples are
/// counted. The totals per lane count every span ever recorded. A record is one uncontended lock and a store of 40
/// bytes: 8 ns, and 56 ns as a Span, most of it the two readings of the clock (measured on a 2-core Xeon).
///
/// Threads: every member may be called from any thread.
class Timeline {
 public:
  struct Capacity {
    std::size_t n_spans = std::size_t{1} << 16;    ///< 2.5 MiB of records
    std::size_t n_samples = std::size_t{1} << 14;  ///< 0.5 MiB of records
    std::size_t n_steps = std::size_t{1} << 12;    ///< 32 KiB of records
  };

  Timeline() : Timeline(Capacity{}) {}
  /// Requires: the capacities are above 0 (ContractViolation).
  explicit Timeline(Capacity capacity, Clock clock = steady_now_ns);

  /// The timeline's own clock, for spans whose start and end the caller notes itself.
  std::uint64_t now_ns() const { return clock_(); }

  /// Requires: `span` does not end before it starts (ContractViolation).
  void record(const SpanRecord& span);
  /// Records the bytes that each tier holds now.
  void sample(const std::array<std::uint64_t, kNTiers>& used_bytes);
  /// Records that a step of the training ends now, and the next one begins.
  void end_step();

  /// The records that are still in the ring, in the order of recording.
  std::vector<SpanRecord> spans() const;
  std::vector<SampleRecord> samples() const;
  /// The times at which steps ended, ascending.
  std::vector<std::uint64_t> step_ends_ns() const;
  /// The number of records that the rings have lost.
  std::uint64_t n_dropped_spans() const;
  std::uint64_t n_dropped_samples() const;

  /// Bytes of all spans of `lane`, dropped ones included.
  std::uint64_t n_bytes(Lane lane) const;
  /// Sum of the lengths of all spans of `lane`, dropped ones included; where spans overlap this exceeds the time that
  /// passed.
  double seconds(Lane lane) const;

 private:
  template <typename Record>
  struct Ring {
    explicit Ring(std::size_t capacity);
    void push(const Record& record) { records[n_pushed++ % records.size()] = record; }
    std::uint64_t n_dropped() const { return n_pushed > records.size() ? n_pushed - records.size() : 0; }
    std::vector<Record> in_order() const;

    std::vector<Record> records;
    std::uint64_t n_pushed = 0;
  };

  const Clock clock_;
  mutable std::mutex mutex_;  // guards everything below
  Ring<SpanRecord> spans_;
  Ring<SampleRecord> samples_;
  Ring<std::uint64_t> step_ends_ns_;
  std::array<std::uint64_t, kNLanes> total_bytes_{};
  std::array<std::uint64_t, kNLanes> total_ns_{};
};

/// Records one span from its construction to its destruction.
class Span {
 public:
  /// `timeline` is borrowed; null records nothing, so callers need no branch where recording is off.
  Span(Timeline* timeline, Lane lane, std::uint32_t id, std::uint64_t n_bytes = 0, Phase phase = Phase::none)
      : timeline_(timeline), record_{lane, id, timeline ? timeline->now_ns() : 0, 0, n_bytes, phase} {}
  ~Span() { end(); }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// For work that learns its size on the way.
  void add_bytes(std::uint64_t n_bytes) { record_.n_bytes += n_bytes; }

 private:
  void end() noexcept;

  Timeline* const timeline_;
  SpanRecord record_;
};

}  // namespace castor
