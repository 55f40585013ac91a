// SPDX-License-Identifier: Apache-2.0
#include "stream_suite.h"

#include "subjects.h"

namespace castor::conformance {
namespace {

struct HostStreamSubject : testing::CpuSubject {
  std::unique_ptr<Stream> make_stream() { return std::move(device().make_stream()).value(); }
};
struct InlineStreamSubject : testing::CpuSubject {
  std::unique_ptr<Stream> make_stream() { return device().wrap_compute_stream(nullptr); }
};
struct CudaStreamSubject : testing::CudaSubject {
  std::unique_ptr<Stream> make_stream() { return std::move(device().make_stream()).value(); }
};
struct CudaDefaultStreamSubject : testing::CudaSubject {
  std::unique_ptr<Stream> make_stream() { return device().wrap_compute_stream(nullptr); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, StreamSuite, HostStreamSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(Inline, StreamSuite, InlineStreamSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, StreamSuite, CudaStreamSubject);
INSTANTIATE_TYPED_TEST_SUITE_P(CudaDefault, StreamSuite, CudaDefaultStreamSubject);

}  // namespace
}  // namespace castor::conformance
