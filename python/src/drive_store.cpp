// SPDX-License-Identifier: Apache-2.0
#include "drive_store.h"

#include <castor/io/tensor_store.h>
#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>
#include <castor/plugins/torch/model_parts.h>

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"

namespace castor::python {
namespace {

namespace py = pybind11;

BufferView bytes_of(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || !tensor.is_contiguous())
    throw ErrorException({ErrorKind::usage, "a drive takes contiguous tensors on the host"});
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

/// A put or get, which keeps its store and its bytes until it has ended.
class Transfer {
 public:
  Transfer(std::shared_ptr<TensorStore> store, at::Tensor tensor, Event event)
      : store_(std::move(store)), tensor_(std::move(tensor)), event_(std::move(event)) {}
  Transfer(Transfer&&) = default;
  Transfer& operator=(Transfer&&) = delete;
  ~Transfer() {
    if (!store_) return;
    if (process_ != ::getpid()) {  // a fork has no thread that would end it
      new std::shared_ptr<TensorStore>(std::move(store_));
      return;
    }
    const py::gil_scoped_release others_run;
    (void)event_.wait();
  }

  bool ready() const { return event_.ready(); }
  void wait() const {
    const py::gil_scoped_release others_run;
    value_of(event_.wait());
  }

 private:
  std::shared_ptr<TensorStore> store_;
  at::Tensor tensor_;
  Event event_;
  pid_t process_ = ::getpid();
};

/// Memory in whole pages, which a drive reaches without a copy, in huge pages where there are any: small tensors share one
/// allocation of two of them, which is freed with the last. Threads: one at a time.
class DrivePages {
 public:
  at::DataPtr allocate(std::uint64_t n_bytes) {
    const std::uint64_t n_rounded = (n_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (n_rounded >= kHugeBytes) return part_of(buffer_of(n_rounded), 0);
    if (!slab_ || used_bytes_ + n_rounded > slab_->n_bytes()) slab_ = buffer_of(2 * kHugeBytes), used_bytes_ = 0;
    used_bytes_ += n_rounded;
    return part_of(slab_, used_bytes_ - n_rounded);
  }

 private:
  using Shared = std::shared_ptr<Buffer>;  // owners: the storages in it, and its maker while there is room
  static constexpr std::uint64_t kPageBytes = 4096, kHugeBytes = 2 * kMiB;

  static Shared buffer_of(std::uint64_t n_bytes) {
    static HostResource memory;
    return std::make_shared<Buffer>(value_of(Buffer::allocate(memory, n_bytes)));
  }
  static at::DataPtr part_of(const Shared& buffer, std::uint64_t begin) {
    const auto free = [](void* owner) { delete static_cast<Shared*>(owner); };
    return {buffer->data() + begin, new Shared(buffer), free, c10::kCPU};
  }

  Shared slab_;
  std::uint64_t used_bytes_ = 0;
};

class DriveStore {
 public:
  DriveStore(std::string folder, const std::string& engine, std::size_t depth) {
    TensorStoreOptions options{.folders = {std::move(folder)}, .engine = value_of(parse_engine_choice(engine))};
    options.depth = depth;
    const py::gil_scoped_release others_run;
    store_ = value_of(TensorStore::open(options));
  }

  Transfer put(std::uint64_t key, const at::Tensor& tensor) {
    const BufferView bytes = bytes_of(tensor);
    const py::gil_scoped_release others_run;
    return {store_, tensor, store_->put(key, bytes)};
  }
  /// Faults in pages that are not there yet while the drive reads: this thread is the faster of the two.
  Transfer get(std::uint64_t key, const at::Tensor& tensor) {
    const BufferView bytes = bytes_of(tensor);
    const py::gil_scoped_release others_run;
    Transfer transfer{store_, tensor, store_->get(key, bytes)};
    fault_in({bytes.data, bytes.n_bytes}, 1);
    return transfer;
  }
  void remove(std::uint64_t key) {
    const py::gil_scoped_release others_run;
    store_->remove(key);
  }
  /// Gives an empty storage memory.
  void give_memory(const at::Tensor& of_storage, std::uint64_t n_bytes) {
    castor::give_memory(of_storage, pages_.allocate(n_bytes), n_bytes);
  }
  std::uint64_t allocated_bytes() const { return store_->stats().allocated_bytes; }
  std::vector<std::string> warnings() const { return store_->warnings(); }

 private:
  std::shared_ptr<TensorStore> store_;  // owners: this and its transfers
  DrivePages pages_;
};

}  // namespace

void bind_drive_store(py::module_& module) {
  py::class_<Transfer>(module, "Transfer").def("ready", &Transfer::ready).def("wait", &Transfer::wait);
  module.def("take_memory", &castor::take_memory);
  py::class_<DriveStore>(module, "DriveStore")
      .def(py::init<std::string, const std::string&, std::size_t>())
      .def("put", &DriveStore::put)
      .def("get", &DriveStore::get)
      .def("remove", &DriveStore::remove)
      .def("give_memory", &DriveStore::give_memory)
      .def("allocated_bytes", &DriveStore::allocated_bytes)
      .def("warnings", &DriveStore::warnings);
}

}  // namespace castor::python
