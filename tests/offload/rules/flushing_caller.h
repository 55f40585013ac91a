// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace castor::testing {

/// Makes the calling thread flush subnormals and round downwards while it lives, as some libraries do. On processors
/// without MXCSR (not x86) it changes nothing, and the cases that use it still check their values.
class FlushingCaller {
 public:
#ifdef __SSE2__
  FlushingCaller() { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero | kDownwards); }
  ~FlushingCaller() { _mm_setcsr(before_); }
  /// False once the settings of the thread have been changed.
  bool still_set() const {
    return (_mm_getcsr() & kControl) == ((before_ | kFlushToZero | kDenormalsAreZero | kDownwards) & kControl);
  }
  /// True where this thread's arithmetic really flushes.
  bool flushes() const {
    const volatile float half = 0.5f, subnormal = 0x1p-130f;
    return half * subnormal == 0;
  }

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kDownwards = 0x2000, kControl = 0xffc0;
  const unsigned before_ = _mm_getcsr();
#else
  bool still_set() const { return true; }
  bool flushes() const { return true; }
#endif
};

}  // namespace castor::testing
