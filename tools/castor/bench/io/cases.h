// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.h"

namespace castor::bench {

/// One case: tensors of one size, moved in one direction, in requests of one size at one depth.
struct IoCase {
  Rw rw = Rw::read;
  std::uint64_t tensor_bytes = 0;
  std::uint64_t block_bytes = 0;
  unsigned depth = 0;  ///< requests that each drive has in flight
  bool random = false;
  bool checksums = true;
  /// Compared with the same store without checksums instead of the drive: the cost of the checksums.
  bool against_unchecked = false;
  unsigned n_drives = 1;
  /// Memory that tensors and the ceiling's requests move in, one part after another; 0 = no more than is in flight.
  std::uint64_t memory_bytes = 0;

  /// Bytes of one request, also of the ceiling's: a block, or a smaller tensor in whole pages.
  std::uint64_t request_bytes() const;
  /// Requests in flight on all drives together.
  unsigned total_depth() const { return depth * n_drives; }
  /// Bytes in flight on the drives at any moment.
  std::uint64_t in_flight_bytes() const { return total_depth() * request_bytes(); }
  /// Puts and gets in flight: those on the drives and a few more, so that one that ends has a successor waiting. The
  /// extra ones are few because each has memory of its own, whereas the ceiling's requests take no more than the drives
  /// have in flight; where the host copies (virtio), bytes in a cache move faster.
  std::size_t n_in_flight() const;
  /// The share of the ceiling that Castor promises; 0 = no promise for this size.
  double wanted_share() const;
};

/// How a ceiling submits requests to the kernel and reaps completions: one per call, or all available ones in one call.
/// Calls are most of the cost of small requests; large requests that are submitted together also complete together, and
/// the drive idles until the next batch.
enum class Pace { one_by_one, in_batches };

/// The cases of `options`. Without sizes, blocks, depths, directions or checksums: tensors of 1 MiB with and without
/// checksums, the cost of these, and tensors of 64 KiB; otherwise every combination of the given values.
std::vector<IoCase> plan_cases(const IoBenchOptions& options);

/// `read 1MiB`, `mixed 64KiB unchecked`; block, depth and order only if they differ from the usual.
std::string name_of(const IoCase& one);

/// A size without rounding, in the syntax of the command line: `1MiB`, `1000`.
std::string exact_size(std::uint64_t n_bytes);

}  // namespace castor::bench
