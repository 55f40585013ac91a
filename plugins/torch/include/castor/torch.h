// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Trains a LibTorch model whose parameters, gradients and optimizer states need not fit in the memory of its device:
/// castor::boost gives a castor::Session (session.h), castor::estimate its forecast (estimate.h). A program includes
/// this header and torch/torch.h, and compiles with the flags of `pkg-config --cflags --libs castor-torch`.

#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/estimate.h>
#include <castor/plugins/torch/on_meta.h>
#include <castor/plugins/torch/recompute.h>
#include <castor/plugins/torch/runtime.h>
#include <castor/plugins/torch/session.h>
#include <castor/plugins/torch/unit.h>
