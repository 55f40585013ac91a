// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/bytes.h>
#include <castor/memory/result.h>

#include "cli/cli.h"

namespace castor::bench {

enum class Rw : std::uint8_t {
  read,
  write,
  mixed,  ///< a read and a write in turn
};
const char* name(Rw rw);

inline constexpr std::uint64_t kUsualBlockBytes = kMiB;
inline constexpr unsigned kUsualDepth = 16;

/// The options of `castor bench io`. Empty lists stand for the usual cases (bench/io/cases.h).
struct IoBenchOptions {
  std::vector<std::string> folders;
  std::vector<std::uint64_t> sizes;   ///< of tensors
  std::vector<std::uint64_t> blocks;  ///< of requests, whole pages
  std::vector<unsigned> depths;       ///< requests in flight
  std::vector<Rw> rw;
  std::optional<bool> checksums;
  bool random = false;
  std::string engine = "best";
  bool verify = false;
  unsigned runs = 3;
  double seconds = 1;
  std::optional<std::uint64_t> span_bytes;  ///< working set on the drive
  std::uint64_t memory_bytes = 0;           ///< moved in, one part after another; 0 = as much as is in flight
  std::string fio = "fio";                  ///< the program; "off" = never
  std::vector<std::string> fio_arguments;   ///< in addition to those that make fio do the store's work
  bool tune = false;

  /// No option replaces the usual cases.
  bool usual() const { return sizes.empty() && blocks.empty() && depths.empty() && rw.empty() && !checksums; }
};

/// Usage, text and options of `castor bench io`.
cli::CommandSyntax io_syntax();

/// Errors: usage, naming the option and the values it accepts.
Result<IoBenchOptions> read_io_options(const cli::Values& values);

}  // namespace castor::bench
