// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace castor {

/// While it lives, a call of this thread that meets RLIMIT_FSIZE ends in EFBIG and no more: the SIGXFSZ that comes with
/// it, which kills a process that does not expect it, is swallowed.
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
