// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace castor {

/// While it lives, a call of this thread that reaches RLIMIT_FSIZE only fails with EFBIG: the SIGXFSZ that the kernel
/// also sends, which kills a process without a handler, is discarded.
class SizeSignalBlock {
 public:
  SizeSignalBlock();
  ~SizeSignalBlock();
  SizeSignalBlock(const SizeSignalBlock&) = delete;
  SizeSignalBlock& operator=(const SizeSignalBlock&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace castor
