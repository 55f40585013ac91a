// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/rules/adam.h>
#include <castor/rules/direction_norm.h>
#include <castor/rules/grad_accumulator.h>
#include <castor/rules/grad_norm.h>
#include <castor/rules/lamb.h>
#include <castor/rules/sgd.h>
#include <castor/rules/trust_ratio.h>

/// Kernels for memory that is addresses alone (KernelPlace::nowhere): they read and write nothing of it, so that a
/// step can be rehearsed.
namespace castor::kernels {

std::unique_ptr<AdamKernel> make_idle_adam();
std::unique_ptr<SgdKernel> make_idle_sgd();
std::unique_ptr<LambKernel> make_idle_lamb();
/// Every sum is 0.
std::unique_ptr<GradNormKernel> make_idle_grad_norm();
std::unique_ptr<DirectionNormKernel> make_idle_direction_norm();
std::unique_ptr<TrustKernel> make_idle_trust();
std::unique_ptr<GradAccumulator> make_idle_accumulator();

}  // namespace castor::kernels
