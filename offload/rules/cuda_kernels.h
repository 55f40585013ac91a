// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/adam.h>
#include <castor/rules/direction_norm.h>
#include <castor/rules/grad_accumulator.h>
#include <castor/rules/grad_norm.h>
#include <castor/rules/lamb.h>
#include <castor/rules/sgd.h>
#include <castor/rules/trust_ratio.h>

/// The border between the kernels of the host and those of a GPU. Meson chooses its implementation: `cuda/` or
/// `no_cuda/`.
namespace castor::kernels {

/// Adam for arrays in device memory of any GPU. Errors: failed, where the build has no CUDA.
Result<std::unique_ptr<AdamKernel>> make_cuda_adam();

/// SGD for arrays in device memory of any GPU. Errors: failed, where the build has no CUDA.
Result<std::unique_ptr<SgdKernel>> make_cuda_sgd();

/// LAMB for arrays in device memory of any GPU. Errors: failed, where the build has no CUDA.
Result<std::unique_ptr<LambKernel>> make_cuda_lamb();

/// The norm for gradients in device memory of any GPU. The first call allocates its scratch (8 B per block of the
/// longest tensor seen and 1/255 more, at least 2 KiB); a longer tensor makes it grow, which waits for the device.
/// Errors: failed, where the build has no CUDA.
Result<std::unique_ptr<GradNormKernel>> make_cuda_grad_norm();

/// The norms of LAMB's ratio for arrays in device memory of any GPU. Its scratch (16 B per block of the longest tensor
/// seen and 1/255 more, at least 4 KiB, and 8 KiB of rows) is allocated like that of the norm. Errors: failed, where
/// the build has no CUDA.
Result<std::unique_ptr<DirectionNormKernel>> make_cuda_direction_norm();

/// Trust ratios in memory that any GPU reaches. Errors: failed, where the build has no CUDA.
Result<std::unique_ptr<TrustKernel>> make_cuda_trust();

/// Sums for gradients in device memory of any GPU. Errors: failed, where the build has no CUDA.
Result<std::unique_ptr<GradAccumulator>> make_cuda_accumulator();

}  // namespace castor::kernels
