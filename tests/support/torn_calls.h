// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/torn_drive.h"

namespace castor::test {

/// While it lives, a TornDrive takes note of what this process does to files past engines and FolderOps: room set
/// aside, holes punched, files cut, and names that unlinkat takes away. It stands in the way of those calls of the C
/// library, for which torn_calls.cpp must be linked into the test itself.
///
/// A hole is noted as zeros that are written, so that each sector of it may keep what it held.
///
/// Threads: one object at a time; the calls, any.
class TornCalls {
 public:
  /// `drive` is borrowed.
  explicit TornCalls(TornDrive& drive);
  ~TornCalls();
  TornCalls(const TornCalls&) = delete;
  TornCalls& operator=(const TornCalls&) = delete;
};

}  // namespace castor::test
