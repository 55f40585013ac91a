// SPDX-License-Identifier: Apache-2.0 Properties of the GPU's kernels alone: size, streams, memory out of reach. The
// arithmetic is tested on host and GPU in adam_test.cpp, lamb_test.cpp, grad_accumulator_test.cpp, grad_norm_test.cpp
// and direction_norm_test.cpp.
#include <gtest/gtest.h>

#include <random>

#include <castor/rules/direction_norm.h>
#include <castor/rules/grad_accumulator.h>
#include <castor/rules/grad_norm.h>
#include <castor/rules/trust_ratio.h>

#include "adam_place.h"

namespace castor {
namespace {

using testing::AdamData;

class CudaKernels : public testing::AdamPlace {
 protected:
  /// `data` after `n_updates` on the host, for comparison with the GPU.
  static AdamData host_updated(const AdamOptions& options, AdamData data, std::uint64_t n_updates) {
    const auto cpu = make_cpu_device();
    const auto stream = cpu->wrap_compute_stream(nullptr);
    for (std::uint64_t t = 1; t <= n_updates; ++t)
      make_host_adam()->update(*stream, adam_coefficients(options, t, 0.5), data.arrays()).value();
    return data;
  }

  double host_sum(const std::vector<std::uint8_t>& grad, DType dtype) {
    double sum = -1;
    make_host_grad_norm()->sum_of_squares(stream(), grad.data(), dtype, grad.size() / size_bytes(dtype), &sum).value();
    return sum;
  }

  /// The sums of several tensors, queued one after the other.
  std::vector<double> device_sums(GradNormKernel& kernel, const std::vector<const std::vector<std::uint8_t>*>& grads,
                                  DType dtype) {
    const Buffer sums = Buffer::allocate(device().host_memory(), grads.size() * sizeof(double)).value();
    auto* results = reinterpret_cast<double*>(sums.data());
    std::vector<Buffer> uploaded;
    for (const auto* grad : grads) uploaded.push_back(upload(*grad));
    for (std::size_t i = 0; i < grads.size(); ++i)
      kernel.sum_of_squares(stream(), uploaded[i].data(), dtype, grads[i]->size() / size_bytes(dtype), results + i)
          .value();
    stream().synchronize().value();
    return {results, results + grads.size()};
  }
};
INSTANTIATE_TEST_SUITE_P(On, CudaKernels, ::testing::Values(DeviceKind::cuda), testing::place_name);

TEST_P(CudaKernels, AdamHasTheHostsBitsOverMillionsOfElements) {
  std::mt19937_64 random(11);
  for (const bool decoupled : {true, false})
    for (const DType grad : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(name(grad));
      const DType weight = grad;
      const AdamOptions options{3e-4, 0.9, 0.95, 1e-8, 0.1, decoupled, grad == DType::f16 ? 0.01 : 0};
      AdamData on_device = testing::random_data(random, (1u << 20) + 3, grad, weight);
      const AdamData on_host = host_updated(options, on_device, 3);
      for (std::uint64_t t = 1; t <= 3; ++t)
        on_device = updated(adam_coefficients(options, t, 0.5), std::move(on_device));
      testing::expect_same_bits(on_device, on_host);
    }
}

/// The arrays of `n` fp32 elements side by side in `memory`.
UpdateArrays side_by_side(std::byte* memory, std::uint64_t n) {
  auto* const floats = reinterpret_cast<float*>(memory);
  return {floats, floats + n, floats + 2 * n, floats + 3 * n, floats + 4 * n, DType::f32, DType::f32, n};
}

/// A tensor longer than the first scratch allows, in parts that end within blocks.
TEST_P(CudaKernels, DirectionNormHasTheHostsBitsWhereverPartsEnd) {
  constexpr std::uint64_t kN = 300 * kNormBlock + 1000;
  std::mt19937_64 random(13);
  std::vector<float> values(5 * kN);
  for (float& value : values) value = static_cast<float>(1 + random() % 1000) * 0x1p-10f;
  const Buffer uploaded = upload(values), sums = upload(std::vector<double>(2));
  const LambCoefficients c = lamb_coefficients({.weight_decay = 0.1}, 2, 0.5);
  double wanted[2];
  auto* const host_values = reinterpret_cast<std::byte*>(values.data());
  make_host_direction_norm()->add(stream(), c, {side_by_side(host_values, kN), 0, kN}, wanted).value();
  const auto kernel = make_direction_norm(device()).value();
  const UpdateArrays arrays = side_by_side(uploaded.data(), kN);
  for (const std::vector<std::uint64_t>& ends : {std::vector<std::uint64_t>{kN},
                                                 {256, 5 * kNormBlock + 512, 5 * kNormBlock + 768, kN},
                                                 {280 * kNormBlock, 290 * kNormBlock - 256, kN}}) {
    std::uint64_t first = 0;
    for (const std::uint64_t end : ends) {
      const MeasuredPart part = {arrays.part(first, end - first), first, kN};
      kernel->add(stream(), c, part, reinterpret_cast<double*>(sums.data())).value();
      first = end;
    }
    std::vector<double> got(2);
    download(sums, got);
    EXPECT_EQ(got, (std::vector<double>{wanted[0], wanted[1]})) << ends.size() << " parts";
  }
}

TEST_P(CudaKernels, NormHasTheHostsBitsAndItsScratchGrows) {
  // 300 blocks are more than the first allocation holds; short tensors before and after it use the existing one.
  std::mt19937_64 random(12);
  std::vector<std::uint8_t> small(2 * 1000), large(2 * (300 * kNormBlock + 5));
  for (auto* grad : {&small, &large})
    for (std::size_t i = 0; i < grad->size(); ++i)
      (*grad)[i] = static_cast<std::uint8_t>(i % 2 == 0 ? random() : random() % 0x44);
  const auto kernel = make_grad_norm(device()).value();
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double small_sum = host_sum(small, dtype), large_sum = host_sum(large, dtype);
    EXPECT_EQ(device_sums(*kernel, {&small, &large, &small, &large}, dtype),
              (std::vector<double>{small_sum, large_sum, small_sum, large_sum}));
  }
}

TEST_P(CudaKernels, NormOfNothingIsZeroInStreamOrder) {
  const std::vector<std::uint8_t> nothing, something(4 * 1000, 0x3f);
  const auto kernel = make_grad_norm(device()).value();
  EXPECT_EQ(device_sums(*kernel, {&something, &nothing}, DType::f32),
            (std::vector<double>{host_sum(something, DType::f32), 0}));
}

TEST_P(CudaKernels, AQueryThatWasNotReadyIsNoFailureOfTheNextLaunch) {
  constexpr std::uint64_t kN = 64u << 20;
  const Buffer state = Buffer::allocate(device().device_memory(), 5 * kN * sizeof(float)).value();
  auto* floats = reinterpret_cast<float*>(state.data());
  const UpdateArrays arrays{floats,          floats + kN, floats + 2 * kN, floats + 3 * kN,
                          floats + 4 * kN, DType::f32,  DType::f32,      kN};
  const auto kernel = make_adam(device()).value();
  bool once_not_ready = false;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(kernel->update(stream(), adam_coefficients({}, 1, 1), arrays).ok());
    once_not_ready |= !stream().record().ready();
  }
  EXPECT_TRUE(once_not_ready);
  EXPECT_TRUE(stream().synchronize().ok());
}

TEST_P(CudaKernels, OrdinaryHostMemoryIsRefused) {
  AdamData data(100, DType::f32, DType::f32);
  const auto outcome = make_adam(device()).value()->update(stream(), adam_coefficients({}, 1, 1), data.arrays());
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.error().message.find("host memory"), std::string::npos) << outcome.error().message;
  const auto accumulator = make_accumulator(device()).value();
  EXPECT_FALSE(accumulator->add(stream(), data.master.data(), data.grad.data(), DType::f32, 100).ok());
  EXPECT_FALSE(accumulator->widen(stream(), data.master.data(), data.grad.data(), DType::f32, 100).ok());
  double sum = 0;
  EXPECT_FALSE(
      make_grad_norm(device()).value()->sum_of_squares(stream(), data.grad.data(), DType::f32, 100, &sum).ok());
}

/// A device that claims to be a GPU, for builds and machines without one.
class NominalGpu final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string description() const override { return "nominal"; }
  Result<std::unique_ptr<Stream>> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<Stream> wrap_compute_stream(void* handle) override { return cpu_->wrap_compute_stream(handle); }
  MemoryResource& device_memory() override { return cpu_->device_memory(); }
  MemoryResource& host_memory() override { return cpu_->host_memory(); }
  std::uint64_t total_memory_bytes() const override { return 0; }
  std::uint64_t free_memory_bytes() const override { return 0; }

 private:
  std::unique_ptr<Device> cpu_ = make_cpu_device();
};

TEST(KernelChoice, ABuildWithoutCudaSaysSo) {
  const auto devices = count_cuda_devices();
  const bool has_cuda = devices.ok() || devices.error().message.find("built without CUDA") == std::string::npos;
  const auto adam = make_adam(NominalGpu());
  const auto sgd = make_sgd(NominalGpu());
  const auto lamb = make_lamb(NominalGpu());
  const auto norm = make_grad_norm(NominalGpu());
  const auto accumulator = make_accumulator(NominalGpu());
  ASSERT_EQ(adam.ok(), has_cuda);
  ASSERT_EQ(sgd.ok(), has_cuda);
  ASSERT_EQ(lamb.ok(), has_cuda);
  ASSERT_EQ(make_direction_norm(NominalGpu()).ok(), has_cuda);
  ASSERT_EQ(make_trust(NominalGpu()).ok(), has_cuda);
  ASSERT_EQ(accumulator.ok(), has_cuda);
  ASSERT_EQ(norm.ok(), has_cuda);
  if (has_cuda) return;
  EXPECT_NE(adam.error().message.find("built without CUDA"), std::string::npos);
  EXPECT_NE(sgd.error().message.find("built without CUDA"), std::string::npos);
  EXPECT_NE(lamb.error().message.find("built without CUDA"), std::string::npos);
  EXPECT_NE(norm.error().message.find("built without CUDA"), std::string::npos);
  EXPECT_NE(accumulator.error().message.find("built without CUDA"), std::string::npos);
}

}  // namespace
}  // namespace castor
