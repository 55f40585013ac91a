// SPDX-License-Identifier: Apache-2.0
#include <castor/io/tensor_store.h>

#include <utility>

#include "tensor_store_impl.h"

namespace castor {

Result<std::unique_ptr<TensorStore>> TensorStore::open(const TensorStoreOptions& options) {
  CASTOR_ASSIGN(auto engine, make_io_engine(options.engine));
  return open(options, std::move(engine));
}

Result<std::unique_ptr<TensorStore>> TensorStore::open(const TensorStoreOptions& options,
                                                       std::unique_ptr<IoEngine> engine) {
  CASTOR_ASSIGN(auto space, StoreSpace::open(options.folders, options.budget));
  auto impl = std::make_unique<Impl>(options.checksums, std::move(space), std::move(engine));
  return std::unique_ptr<TensorStore>(new TensorStore(std::move(impl)));
}

TensorStore::TensorStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TensorStore::~TensorStore() = default;

Event TensorStore::put(std::uint64_t key, BufferView bytes) { return impl_->queue(StoreOp::Kind::put, key, bytes); }

Event TensorStore::get(std::uint64_t key, BufferView bytes) { return impl_->queue(StoreOp::Kind::get, key, bytes); }

void TensorStore::remove(std::uint64_t key) { impl_->remove(key); }

Result<void> TensorStore::drain() { return impl_->drain(); }

TensorStoreStats TensorStore::stats() const { return impl_->stats(); }

std::string_view TensorStore::engine_name() const { return impl_->engine().name(); }

std::vector<std::string> TensorStore::warnings() const {
  auto sentences = impl_->space().warnings();
  if (auto reason = impl_->engine().fallback_reason(); !reason.empty())
    sentences.insert(sentences.begin(), std::move(reason));
  return sentences;
}

}  // namespace castor
