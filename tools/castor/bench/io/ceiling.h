// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <castor/memory/buffer.h>

#include "cases.h"
#include "bench/common/region.h"
#include "bench/common/shares.h"
#include "bench/common/stopped.h"

namespace castor::bench {

/// The longest time spent on finding a ceiling's pace.
inline constexpr double kMostSettlingS = 2;

/// The measurement that Castor is compared with: the fastest known way to move the same bytes.
class Ceiling {
 public:
  virtual ~Ceiling() = default;
  /// `fio-3.33`, `bare io_uring loop`.
  virtual std::string program() const = 0;
  /// The program and its pace: `fio-3.33 in batches`.
  std::string name() const;
  /// Sets the faster pace for `one` by trying each twice, for `seconds` in all. Errors: as `measure`; then the pace
  /// stays.
  Result<void> settle(const IoCase& one, const Region& region, double seconds);
  /// Moves bytes in `region` as `one` says, for `seconds`. Errors: failed or io if the ceiling does not work here;
  /// interrupted.
  Result<Sample> measure(const IoCase& one, const Region& region, double seconds);
  /// A sentence for each deviation from a fair comparison.
  virtual std::vector<std::string> notes() const { return {}; }

 private:
  /// Requires: a region that holds at least one request.
  virtual Result<Sample> measure_at(Pace pace, const IoCase& one, const Region& region, double seconds) = 0;

  Pace pace_ = Pace::in_batches;
};

/// fio, on the files of a region themselves; if it cannot open or register them, on files of the same size in
/// `folders`, or without registered memory, or with libaio. Each step down is noted. `command` is the program, and
/// arguments for every run.
std::unique_ptr<Ceiling> make_fio_ceiling(std::vector<std::string> command, std::vector<std::string> folders,
                                          Stopped stopped);

/// The loop of castor/io/bare_loop.h; `memory` is borrowed.
std::unique_ptr<Ceiling> make_bare_ceiling(BufferView memory, Stopped stopped);

}  // namespace castor::bench
