// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options.h"

namespace castor::bench {

/// One thing to measure: tensors of one size, moved one way, in requests of one size with so many in flight.
struct IoCase {
  Rw rw = Rw::read;
  std::uint64_t tensor_bytes = 0;
  std::uint64_t block_bytes = 0;
  unsigned depth = 0;  ///< requests that each drive has at a time
  bool random = false;
  bool checksums = true;
  /// Held against the same store without checksums instead of the drive: what the checksums cost.
  bool against_unchecked = false;
  unsigned n_drives = 1;
  /// Of memory that tensors and the ceiling's requests move in, one part after another; 0 = no more than is under way.
  std::uint64_t memory_bytes = 0;

  /// What one request moves, and what the ceiling's requests move: a block, or a smaller tensor in whole pages.
  std::uint64_t request_bytes() const;
  /// On all drives together.
  unsigned total_depth() const { return depth * n_drives; }
  /// Bytes that the drives have at any moment.
  std::uint64_t in_flight_bytes() const { return total_depth() * request_bytes(); }
  /// Puts and gets to have under way: those that the drives have, and a few behind them, so that one that ends has a
  /// successor waiting. Not many: they move in memory of their own, the ceiling's take no more than the drives have, and
  /// where the host copies (virtio) what lies in a cache is moved faster.
  std::size_t n_in_flight() const;
  /// The share of the ceiling that Castor is meant to reach; 0 = nothing was promised for this size.
  double wanted_share() const;
};

/// How a ceiling gives requests to the kernel and takes answers from it: each by a call of its own, or all that there
/// are in one. Calls cost small requests most of their time; large ones that are given together are done together too,
/// and the drive waits for the next lot.
enum class Pace { one_by_one, in_batches };

/// What `options` ask for. Without sizes, blocks, depths, directions or checksums: tensors of 1 MiB with and without
/// checksums, what these cost, and tensors of 64 KiB; else every combination of what was named.
std::vector<IoCase> plan_cases(const IoBenchOptions& options);

/// `read 1MiB`, `mixed 64KiB unchecked`; block, depth and order only where they differ from the usual.
std::string name_of(const IoCase& one);

/// A size as the command line reads it, exactly: `1MiB`, `1000`.
std::string exact_size(std::uint64_t n_bytes);

}  // namespace castor::bench
