// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace castor::test {

/// Whether this is a ThreadSanitizer build, for the few tests that would take minutes there. gcc and clang have
/// different macros for it.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// Whether this is a build of any sanitizer that slows everything down.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kSanitizer = kThreadSanitizer || __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitizer = kThreadSanitizer;
#endif

}  // namespace castor::test
