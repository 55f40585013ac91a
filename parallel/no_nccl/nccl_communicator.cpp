// SPDX-License-Identifier: Apache-2.0
#include <castor/parallel/nccl_communicator.h>

namespace castor {
namespace {

Error no_nccl() {
  return {ErrorKind::failed,
          "this Castor was built without NCCL; where nvcc is, install it (pip install nvidia-nccl-cu13, or "
          "libnccl-dev) and configure again "
          "with -Dnccl=enabled"};
}

}  // namespace

Result<NcclId> make_nccl_id() { return no_nccl(); }

Result<std::unique_ptr<Communicator>> make_nccl_communicator(int, int, const NcclId&, int) { return no_nccl(); }

}  // namespace castor
