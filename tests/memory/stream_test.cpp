// SPDX-License-Identifier: Apache-2.0
#include "stream_suite.h"

#include <array>
#include <cstddef>

#include "../support/deferred_device.h"
#include "subjects.h"

namespace castor::conformance {
namespace {

struct HostStreamSubject : testing::CpuSubject {
  std::unique_ptr<Stream> make_stream() { return std::move(device().make_stream()).value(); }
};
struct InlineStreamSubject : testing::CpuSubject {
  std::unique_ptr<Stream> make_stream() { return device().wrap_compute_stream(nullptr); }
};
struct DeferredStreamSubject : testing::CpuSubject {
  std::unique_ptr<Stream> make_stream() { return test::make_deferred_device()->make_stream().value(); }
};
struct CudaStreamSubject : testing::CudaSubject {
  std::unique_ptr<Stream> make_stream() { return std::move(device().make_stream()).value(); }
};
struct CudaDefaultStreamSubject : testing::CudaSubject {
  std::unique_ptr<Stream> make_stream() { return device().wrap_compute_stream(nullptr); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, StreamSuite, HostStreamSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(Inline, StreamSuite, InlineStreamSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(Deferred, StreamSuite, DeferredStreamSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, StreamSuite, CudaStreamSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(CudaDefault, StreamSuite, CudaDefaultStreamSubject);

// The properties for which the double exists.
TEST(DeferredStream, WhoDoesNotWaitReadsPoison) {
  const auto stream = test::make_deferred_device()->make_stream().value();
  const std::array<std::byte, 4> source = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 4> first = source, second = source;
  (void)stream->copy(first.data(), source.data(), 4);
  const Event arrived = stream->copy(second.data(), source.data(), 4);
  EXPECT_NE(first, source);
  EXPECT_EQ(second, source) << "poisoned before its turn: whoever is ahead may still read it";
  arrived.wait().value();
  EXPECT_EQ(first, source);
  EXPECT_EQ(second, source);
}

TEST(DeferredStream, WhoAsksOftenEnoughFindsTheCopyEnded) {
  const auto stream = test::make_deferred_device()->make_stream().value();
  const Event recorded = stream->record();
  int n_polls = 0;
  while (!recorded.ready()) ASSERT_LT(++n_polls, 100);
  EXPECT_GT(n_polls, 0);
}

}  // namespace
}  // namespace castor::conformance
