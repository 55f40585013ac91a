// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>

namespace castor {
namespace {

template <typename Fn>
Error error_of(const Fn& fn) {
  const auto result = guard(fn);
  return result.ok() ? Error{ErrorKind::failed, "nothing was thrown"} : result.error();
}

TEST(Guard, HandsValuesThrough) {
  const Result<int> seven = guard([] { return 7; });
  EXPECT_EQ(*seven, 7);
  EXPECT_TRUE(guard([] {}).ok());
}

TEST(Guard, AnErrorComesBackAsItWas) {
  const Error error = error_of([] { throw ErrorException({ErrorKind::interrupted, "enough"}); });
  EXPECT_EQ(error.kind, ErrorKind::interrupted);
  EXPECT_EQ(error.message, "enough");
}

TEST(Guard, ALibTorchErrorIsOneLine) {
  const Error error = error_of([] { TORCH_CHECK(false, "shapes differ\nand so on"); });
  EXPECT_EQ(error.kind, ErrorKind::failed);
  EXPECT_EQ(error.message, "shapes differ");
}

TEST(Guard, AFullDeviceIsOneThatDoesNotFit) {
  const Error error = error_of([] {
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 3 GiB");
  });
  EXPECT_EQ(error.kind, ErrorKind::does_not_fit);
  EXPECT_EQ(error.message.find("CUDA out of memory. Tried to allocate 1.50 GiB; tensors hold "), 0u) << error.message;
  EXPECT_NE(error.message.find("`device_budget`"), std::string::npos);
  EXPECT_EQ(error.option, "device_budget");
  EXPECT_EQ(error.shortage.value().tier, Tier::device);
  EXPECT_EQ(error.shortage->needed_bytes, 3ull << 29);
}

TEST(Guard, AFullHostIsOneThatDoesNotFit) {
  const Error unknown = error_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(unknown.kind, ErrorKind::does_not_fit);
  EXPECT_EQ(unknown.shortage.value().tier, Tier::host);
  EXPECT_EQ(unknown.shortage->needed_bytes, 0u) << "not known";
  EXPECT_GT(unknown.shortage->available_bytes, 0u);
  const Error known = error_of([] { (void)at::empty({std::int64_t{1} << 50}, at::kByte); });
  EXPECT_EQ(known.kind, ErrorKind::does_not_fit) << known.message;
  EXPECT_EQ(known.shortage.value().needed_bytes, std::uint64_t{1} << 50);
  EXPECT_EQ(known.option, "host_budget");
}

TEST(Guard, AnythingElseFailed) {
  EXPECT_EQ(error_of([] { throw std::runtime_error("odd\nnumber"); }).message, "odd");
  EXPECT_EQ(error_of([] { throw 3; }).kind, ErrorKind::failed);
}

TEST(Runtime, TheBuildTagNamesLibTorch) { EXPECT_EQ(torch_build_tag().find("torch-2."), 0u) << torch_build_tag(); }

}  // namespace
}  // namespace castor
