// SPDX-License-Identifier: Apache-2.0
#include "communicator_suite.h"

#include <algorithm>

#include <castor/parallel/nccl_communicator.h>
#include <castor/parallel/thread_communicator.h>

namespace castor::conformance {
namespace {

template <int kRanks>
struct ThreadSubject {
  std::string missing() const { return {}; }
  int world_size() const { return kRanks; }
  std::unique_ptr<Device> device(int) { return make_cpu_device(); }
  std::unique_ptr<Communicator> join(int rank) { return std::move(ranks_[static_cast<std::size_t>(rank)]); }

 private:
  std::vector<std::unique_ptr<Communicator>> ranks_ = make_thread_communicators(kRanks);
};

using ThreadSubjects =
    ::testing::Types<ThreadSubject<1>, ThreadSubject<2>, ThreadSubject<3>, ThreadSubject<4>, ThreadSubject<8>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Threads, CommunicatorSuite, ThreadSubjects);

/// As many ranks as there are GPUs, one thread each (at most 8, where the values of the suite still sum exactly).
struct NcclSubject {
  NcclSubject() {
    const auto n_devices = count_cuda_devices();
    const auto id = n_devices.ok() ? make_nccl_id() : Result<NcclId>(n_devices.error());
    if (!id.ok()) {
      missing_ = id.error().message;
      return;
    }
    world_size_ = std::min(n_devices.value(), 8);
    id_ = id.value();
  }
  std::string missing() const { return missing_; }
  int world_size() const { return world_size_; }
  std::unique_ptr<Device> device(int rank) { return std::move(make_cuda_device(rank)).value(); }
  std::unique_ptr<Communicator> join(int rank) {
    return std::move(make_nccl_communicator(rank, world_size_, id_, rank)).value();
  }

 private:
  std::string missing_;
  int world_size_ = 0;
  NcclId id_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Nccl, CommunicatorSuite, NcclSubject);

}  // namespace
}  // namespace castor::conformance
