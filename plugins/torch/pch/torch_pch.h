// SPDX-License-Identifier: Apache-2.0
// Precompiled for each target that includes LibTorch: these headers cost 10 s per file otherwise. Headers of Castor
// that include <dlpack/dlpack.h> must follow ATen's copy of it.
#include <ATen/ATen.h>
#include <ATen/dlpack.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
