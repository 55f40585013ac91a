// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/drives/torn_drive.h"

namespace castor::test {

/// While it lives, a TornDrive logs the calls of this process on files past engines and FolderOps: room set aside,
/// holes punched, files cut, and names that unlinkat removes. It replaces those functions of the C library, for which
/// torn_calls.cpp must be linked into the test itself.
///
/// A hole is logged as zeros that are written, so that each sector of it may keep its old bytes.
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
