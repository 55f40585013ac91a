// SPDX-License-Identifier: Apache-2.0
#include "subject.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace castor::bench {
namespace {

TensorStoreOptions store_options(const SubjectOptions& asked, const IoCase& one) {
  TensorStoreOptions options;
  options.folders = asked.folders;
  options.engine = asked.engine;
  options.checksums = one.checksums;
  options.block_bytes = one.block_bytes;
  options.depth = one.depth;
  return options;
}

std::vector<int> those_not_in(const std::vector<int>& files, const std::vector<int>& earlier) {
  std::vector<int> later;
  std::set_difference(files.begin(), files.end(), earlier.begin(), earlier.end(), std::back_inserter(later));
  return later;
}

}  // namespace

StoreDriver::Shape shape_of(const SubjectOptions& options, const IoCase& one) {
  const std::uint64_t n_tensors = options.span_bytes / align_up(one.tensor_bytes, kBufferAlignBytes);
  return {one.tensor_bytes, n_tensors, one.n_in_flight(), one.random, options.verify, one.memory_bytes};
}

Result<std::unique_ptr<Subject>> Subject::open(const SubjectOptions& options, const IoCase& one, BufferView memory,
                                               std::function<bool()> stopped) {
  const std::vector<int> earlier = unnamed_files();
  CASTOR_ASSIGN(auto store, TensorStore::open(store_options(options, one)));
  std::unique_ptr<Subject> subject(new Subject(std::move(store), shape_of(options, one), memory, std::move(stopped)));
  subject->store_->register_memory(memory);
  subject->memory_ = memory;
  CASTOR_TRY(subject->make_intact());
  subject->region_ = region_of(those_not_in(unnamed_files(), earlier), options.span_bytes, one.request_bytes());
  return subject;
}

Subject::~Subject() { store_->unregister_memory(memory_); }

Result<void> Subject::make_intact() {
  if (intact_) return {};
  const auto filled = driver_.fill();
  if (!filled.ok()) return filled.error();
  intact_ = true;
  return {};
}

}  // namespace castor::bench
