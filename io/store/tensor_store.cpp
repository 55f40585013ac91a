// SPDX-License-Identifier: Apache-2.0
#include <castor/io/tensor_store.h>

#include <algorithm>
#include <utility>

#include <castor/io/folder.h>

#include "tuning/io_tuning.h"
#include "checksum.h"
#include "store_format.h"
#include "tensor_store_impl.h"

namespace castor {
namespace {

/// Places of a volume in its engine beside those of its pieces: a commit syncs while they work. With fewer, a sync
/// could take a piece's place, and the engine's thread would wait for that place when it starts the piece.
constexpr std::size_t kPlacesForSync = 1;

/// Defaults that suit most drives.
constexpr std::uint64_t kBlockBytes = kMiB;
constexpr std::size_t kDepth = 32;
constexpr unsigned kThreads = 4;
constexpr std::size_t kMostPiecesAhead = 64;

/// Fills in the empty `options`; returns a sentence where the stored tunings cannot be used.
std::string settle(TensorStoreOptions& options) {
  LoadedTuning loaded;
  if (const auto found = load_tuning(options.folders.empty() ? "" : options.folders.front()); found.ok())
    loaded = *found;
  const IoTuning usual{kBlockBytes, kDepth, kThreads};
  const IoTuning& tuning = loaded.tuning ? *loaded.tuning : usual;
  if (!options.block_bytes) options.block_bytes = tuning.block_bytes;
  if (!options.depth) options.depth = tuning.depth;
  if (!options.n_threads) options.n_threads = tuning.n_threads;
  return loaded.warning;
}

/// More pieces than requests on the drive: checksums of the others are made or verified while it works.
std::size_t n_pieces(const TensorStoreOptions& options) {
  return *options.depth + std::min(*options.depth, kMostPiecesAhead);
}

IoEngineOptions engine_options(const TensorStoreOptions& options, std::size_t n_volumes) {
  IoEngineOptions engine;
  engine.choice = options.engine;
  engine.kernel_depth = *options.depth * n_volumes;
  engine.depth = (n_pieces(options) + kPlacesForSync) * n_volumes;
  engine.n_threads = *options.n_threads;
  engine.sqpoll = options.sqpoll;
  engine.iopoll = options.iopoll;
  return engine;
}

/// One engine per drive, so that no drive waits for the checksums of another's blocks.
Result<void> add_engines(const TensorStoreOptions& options, StoreParts& parts) {
  std::vector<std::uint64_t> devices;
  for (std::size_t volume = 0; volume < parts.set->n_volumes(); ++volume) {
    const auto device = parts.set->device(volume);
    const auto known = std::find(devices.begin(), devices.end(), device);
    parts.engine_of.push_back(static_cast<std::size_t>(known - devices.begin()));
    if (known == devices.end()) devices.push_back(device);
  }
  for (std::size_t engine = 0; engine < devices.size(); ++engine) {
    const auto n_volumes = std::count(parts.engine_of.begin(), parts.engine_of.end(), engine);
    CASTOR_ASSIGN(auto made, make_io_engine(engine_options(options, static_cast<std::size_t>(n_volumes))));
    parts.engines.push_back(std::move(made));
  }
  parts.pieces_per_volume = n_pieces(options);
  return {};
}

Result<void> add_given_engine(const TensorStoreOptions& options, std::unique_ptr<IoEngine> engine, StoreParts& parts) {
  const auto n_volumes = parts.set->n_volumes();
  const auto least_depth = n_volumes * (1 + kPlacesForSync);
  if (engine->depth() < least_depth)
    return Error{ErrorKind::usage, "a store of " + std::to_string(n_volumes) + " folders needs an engine of depth " +
                                       std::to_string(least_depth) + " or more, this one has " +
                                       std::to_string(engine->depth())};
  parts.pieces_per_volume = std::min(*options.depth, engine->depth() / n_volumes - kPlacesForSync);
  parts.engine_of.assign(n_volumes, 0);
  parts.engines.push_back(std::move(engine));
  return {};
}

StripeOptions stripe_options(const TensorStoreOptions& options) {
  StripeOptions stripe;
  stripe.folders = options.folders;
  stripe.budget = options.budget;
  stripe.block_bytes = *options.block_bytes;
  return stripe;
}

Result<void> open_durable_set(TensorStoreOptions& options, FolderOps& ops, StoreParts& parts) {
  CASTOR_ASSIGN(parts.files, options.read_only ? StoreFiles::open_to_read(options.folders, ops)
                                               : StoreFiles::open(options.folders, ops));
  options.folders = parts.files->folders();
  if (const auto& found = parts.files->found()) {
    options.block_bytes = found->block_bytes;
    options.checksums = found->checksums;
  }
  CASTOR_ASSIGN(parts.set, StripeSet::open_named(stripe_options(options), parts.files->names(),
                                                 options.read_only ? DirectFile::Mode::read : DirectFile::Mode::write));
  parts.warnings = parts.files->notices();
  return options.read_only ? Result<void>() : parts.files->sync_names();
}

Result<void> check(const TensorStoreOptions& options) {
  if (!is_store_block_size(*options.block_bytes))
    return Error{ErrorKind::usage, "a tensor store moves blocks of a power of two from 4 KiB to 1 GiB, not of " +
                                       std::to_string(*options.block_bytes) + " bytes"};
  if (*options.depth < 1 || *options.depth > kMostDepth)
    return Error{ErrorKind::usage,
                 "a tensor store keeps 1 to 1024 requests on a drive, not " + std::to_string(*options.depth)};
  return check_distinct(options.folders);
}

}  // namespace

Result<std::unique_ptr<TensorStore>> TensorStore::open(const TensorStoreOptions& options) {
  return open(options, nullptr);
}

Result<std::unique_ptr<TensorStore>> TensorStore::open(const TensorStoreOptions& options,
                                                       std::unique_ptr<IoEngine> engine) {
  return open(options, std::move(engine), std::make_unique<SystemFolderOps>());
}

Result<std::unique_ptr<TensorStore>> TensorStore::open(TensorStoreOptions options, std::unique_ptr<IoEngine> engine,
                                                       std::unique_ptr<FolderOps> folder_ops) {
  const std::string warning = settle(options);
  CASTOR_TRY(check(options));
  StoreParts parts;
  if (options.durability == Durability::commit) {
    CASTOR_TRY(open_durable_set(options, *folder_ops, parts));
  } else {
    CASTOR_ASSIGN(parts.set, StripeSet::open(stripe_options(options)));
  }
  parts.folder_ops = std::move(folder_ops);
  CASTOR_TRY(engine ? add_given_engine(options, std::move(engine), parts) : add_engines(options, parts));
  if (auto reason = parts.engines.front()->fallback_reason(); !reason.empty())
    parts.warnings.insert(parts.warnings.begin(), std::move(reason));
  if (!warning.empty()) parts.warnings.push_back(warning);
  auto impl = std::make_unique<Impl>(options, std::move(parts));
  CASTOR_TRY(impl->restore());
  return std::unique_ptr<TensorStore>(new TensorStore(std::move(impl)));
}

TensorStore::TensorStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TensorStore::~TensorStore() = default;

Event TensorStore::put(std::uint64_t key, BufferView bytes, std::span<const std::uint64_t> checksums) {
  const auto n_blocks = checksums.empty() ? 0 : impl_->for_each_block(bytes.n_bytes, [](std::uint64_t) {});
  if (checksums.size() != n_blocks)
    throw ContractViolation(std::to_string(checksums.size()) + " checksums were given for a value of " +
                            std::to_string(n_blocks) + " blocks that have one");
  return impl_->queue(StoreOp::Kind::put, key, bytes, checksums);
}

std::vector<std::uint64_t> TensorStore::block_ends(std::uint64_t n_bytes) const {
  std::vector<std::uint64_t> ends;
  impl_->for_each_block(n_bytes, [&ends](std::uint64_t end) { ends.push_back(end); });
  return ends;
}

std::uint64_t TensorStore::block_checksum(BufferView block) { return checksum(block); }

Event TensorStore::get(std::uint64_t key, BufferView bytes) { return impl_->queue(StoreOp::Kind::get, key, bytes); }

void TensorStore::remove(std::uint64_t key) { impl_->remove(key); }

Result<void> TensorStore::drain_puts() { return impl_->drain_puts(); }

void TensorStore::drain_gets() { impl_->drain_gets(); }

Result<void> TensorStore::drain() {
  impl_->drain_gets();
  return impl_->drain_puts();
}

void TensorStore::abandon() { impl_->abandon(); }

Event TensorStore::commit(std::uint64_t step) { return impl_->commit(step); }

std::optional<std::uint64_t> TensorStore::committed_step() const { return impl_->committed_step(); }

std::vector<std::uint64_t> TensorStore::keys() const { return impl_->keys(); }

Result<std::uint64_t> TensorStore::value_bytes(std::uint64_t key) const { return impl_->value_bytes(key); }

std::uint64_t TensorStore::register_memory(BufferView bytes) { return impl_->register_memory(bytes); }

void TensorStore::unregister_memory(BufferView bytes) { impl_->unregister_memory(bytes); }

TensorStoreStats TensorStore::stats() const { return impl_->stats(); }

std::string_view TensorStore::engine_name() const { return impl_->engine().name(); }

std::string TensorStore::engine_details() const { return impl_->engine().details(); }

std::vector<std::string> TensorStore::warnings() const { return impl_->warnings(); }

}  // namespace castor
