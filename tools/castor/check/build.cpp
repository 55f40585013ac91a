// SPDX-License-Identifier: Apache-2.0
#include "check/probes.h"

#include <castor/training/plugin_folders.h>
#include <castor/version.h>

#include "cli/torch_tag.h"

namespace castor::check {
namespace {

Finding probe_torch() {
  const std::string tag = torch_tag();
  if (!tag.empty()) return {"torch", true, tag};
  return {"torch", false, "built without LibTorch, so there is no `castor train`; pip install torch and build again"};
}

Finding probe_nccl() {
  if (CASTOR_HAS_NCCL) return {"nccl", true, "built in"};
  return {
      "nccl", false,
      "not built in: only runs on several GPUs need it (pip install nvidia-nccl-cu13, CUDA compiler, and build again)"};
}

}  // namespace

std::vector<Finding> probe_build() {
  return {
      {"version", true, "castor " CASTOR_VERSION}, {"compiler", true, CASTOR_COMPILERS}, probe_torch(), probe_nccl()};
}

}  // namespace castor::check
