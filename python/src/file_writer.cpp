// SPDX-License-Identifier: Apache-2.0
#include "file_writer.h"

#include <castor/io/direct_file.h>
#include <castor/io/file_beside.h>
#include <castor/io/io_engine.h>
#include <castor/io/unique_fd.h>
#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"

namespace castor::python {
namespace {

namespace py = pybind11;

constexpr std::uint64_t kBlockBytes = 4 * kMiB, kPageBytes = 4096;

/// Writes `path` anew beside the old file: both are whole until close() puts the new one in its place. Bytes are copied
/// into a few blocks, which the engine writes.
class FileWriter {
 public:
  FileWriter(std::string path, const std::string& engine, std::size_t n_blocks) : path_(std::move(path)) {
    const py::gil_scoped_release others_run;
    beside_ = std::make_unique<FileBeside>(value_of(FileBeside::create(path_)));
    file_ = std::make_unique<DirectFile>(value_of(DirectFile::open(beside_->path(), DirectFile::Mode::write)));
    engine_ = value_of(make_io_engine({.choice = value_of(parse_engine_choice(engine)), .depth = n_blocks}));
    blocks_.resize(n_blocks);
  }
  ~FileWriter() {
    if (process_ == ::getpid()) {
      drop();
      return;
    }
    (void)engine_.release();  // a fork has no thread of it, and the file is its parent's
    (void)beside_.release();
    for (Block& block : blocks_) new Buffer(std::move(block.memory));
  }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  std::uint64_t write(const py::buffer& given) {
    const py::buffer_info bytes = given.request();
    const auto n_bytes = static_cast<std::uint64_t>(bytes.size * bytes.itemsize);
    const py::gil_scoped_release others_run;
    auto* from = static_cast<const std::byte*>(bytes.ptr);
    for (std::uint64_t left = n_bytes; left > 0;) {
      Block& block = current();
      const std::uint64_t n = std::min(left, kBlockBytes - used_bytes_);
      std::memcpy(block.memory.data() + used_bytes_, from, n);
      from += n, left -= n, used_bytes_ += n;
      if (used_bytes_ == kBlockBytes) submit(kBlockBytes);
    }
    return n_bytes;
  }

  std::uint64_t tell() const { return offset_bytes_ + used_bytes_; }

  /// Waits for what was handed to the engine; the last part of a block waits for close().
  void synchronize() {
    const py::gil_scoped_release others_run;
    wait_for_all();
  }

  /// Leaves the old file as it was.
  void drop() {
    const py::gil_scoped_release others_run;
    for (Block& block : blocks_) (void)block.written.wait();
    file_.reset();
    beside_.reset();
  }

  void close() {
    if (!file_) return;
    const py::gil_scoped_release others_run;
    const std::uint64_t n_bytes = tell();
    if (used_bytes_ > 0) {
      const std::uint64_t padded_bytes = (used_bytes_ + kPageBytes - 1) / kPageBytes * kPageBytes;
      std::memset(current().memory.data() + used_bytes_, 0, padded_bytes - used_bytes_);
      submit(padded_bytes);
    }
    wait_for_all();
    value_of(file_->cut(n_bytes));
    value_of(engine_->submit(file_->sync_request()).wait());
    value_of(beside_->take_place());
    const UniqueFd folder(::open(file_->folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder) ::fsync(folder.get());
    file_.reset();
    beside_.reset();
  }

 private:
  struct Block {
    Buffer memory;
    Event written;
  };

  Block& current() {
    if (!file_) throw ErrorException({ErrorKind::usage, path_ + " is closed"});
    Block& block = blocks_[n_submitted_ % blocks_.size()];
    value_of(block.written.wait());
    if (!block.memory) block.memory = value_of(Buffer::allocate(memory_, kBlockBytes));
    return block;
  }

  void submit(std::uint64_t n_bytes) {
    Block& block = blocks_[n_submitted_ % blocks_.size()];
    block.written = engine_->submit(file_->write_request(offset_bytes_, block.memory.view().part(0, n_bytes)));
    ++n_submitted_;
    offset_bytes_ += used_bytes_, used_bytes_ = 0;
  }

  void wait_for_all() {
    for (Block& block : blocks_) value_of(block.written.wait());
  }

  const pid_t process_ = ::getpid();
  HostResource memory_;
  const std::string path_;
  std::unique_ptr<FileBeside> beside_;
  std::unique_ptr<DirectFile> file_;  ///< null once closed
  std::unique_ptr<IoEngine> engine_;
  std::vector<Block> blocks_;                                          ///< written in turn
  std::uint64_t n_submitted_ = 0, offset_bytes_ = 0, used_bytes_ = 0;  ///< offset of the current block, bytes in it
};

}  // namespace

void bind_file_writer(py::module_& module) {
  py::class_<FileWriter>(module, "FileWriter")
      .def(py::init<std::string, const std::string&, std::size_t>())
      .def("write", &FileWriter::write)
      .def("tell", &FileWriter::tell)
      .def("synchronize", &FileWriter::synchronize)
      .def("drop", &FileWriter::drop)
      .def("close", &FileWriter::close);
}

}  // namespace castor::python
