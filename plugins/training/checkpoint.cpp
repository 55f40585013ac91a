// SPDX-License-Identifier: Apache-2.0
#include <castor/training/checkpoint.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <castor/io/folder.h>
#include <castor/io/tensor_store.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/text.h>
#include <castor/plugins/dl_dtype.h>
#include <castor/states/committed_states.h>
#include <castor/training/optimizer_families.h>
#include <castor/training/finite_states.h>

#include "run_header.h"
#include "value_order.h"

namespace castor {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kHeaderKey = 0;

/// Of one array that move at once.
constexpr std::uint64_t kPieceBytes = 4 << 20;

enum Array : std::uint64_t { kMaster, kExpAvg, kExpAvgSq, kNArrays };

/// Unique as long as a parameter has less than 2^22 pieces, 16 TiB.
std::uint64_t key_of(ParamId param, std::uint64_t piece, std::uint64_t array) {
  return (std::uint64_t{number(param)} + 1) << 24 | piece << 2 | array;
}

/// A piece of three arrays and the moves that use them; the destructor waits for those.
class Piece {
 public:
  static Result<Piece> make(HostResource& pages) {
    Piece piece;
    for (Buffer& array : piece.arrays_) {
      CASTOR_ASSIGN(array, Buffer::allocate(pages, kPieceBytes));
    }
    return piece;
  }
  ~Piece() { (void)wait(); }
  Piece(Piece&&) = default;
  Piece& operator=(Piece&&) = delete;

  float* values(std::uint64_t array) { return reinterpret_cast<float*>(arrays_[array].data()); }
  BufferView bytes(std::uint64_t array, std::uint64_t n_bytes) { return {arrays_[array].data(), n_bytes}; }
  void moves_until(Event event) { moves_.push_back(std::move(event)); }
  Result<void> wait() {
    Result<void> outcome;
    for (const Event& move : std::exchange(moves_, {}))
      if (auto ended = move.wait(); outcome.ok()) outcome = std::move(ended);
    return outcome;
  }

 private:
  Piece() = default;

  std::array<Buffer, kNArrays> arrays_;
  std::vector<Event> moves_;
};

/// How a parameter's values lie in the store: `n_arrays` arrays, each in pieces of up to `piece_values` values.
struct SavedShape {
  std::uint64_t n_arrays, value_bytes, piece_values;
  bool opaque;
};

SavedShape saved_shape(const castor_param_info& param, castor_optimizer optimizer) {
  const std::uint64_t n_trained = keeps_exp_avg_sq(optimizer) ? kNArrays : kExpAvgSq;
  const std::uint64_t n_bytes = master_format(param).value_bytes;
  return {is_trainable(param) ? n_trained : 1, n_bytes, kPieceBytes / n_bytes, is_opaque(param)};
}

/// Part of a parameter's state, in the arrays of `piece`; the other pointers are null.
castor_param_state state_of(ParamId id, std::uint64_t first, std::uint64_t n, const SavedShape& shape, Piece& piece) {
  auto state = blank<castor_param_state>();
  state.param = number(id), state.first = first, state.n = n;
  if (shape.opaque)
    state.opaque = piece.values(kMaster);
  else
    state.master = piece.values(kMaster);
  if (shape.n_arrays > kExpAvg) state.exp_avg = piece.values(kExpAvg);
  if (shape.n_arrays > kExpAvgSq) state.exp_avg_sq = piece.values(kExpAvgSq);
  return state;
}

/// The progress of a save.
struct Saving {
  std::array<Piece*, 2> turns;
  IndexedVector<ParamId, std::uint64_t> n_updates;
  std::uint64_t n_bytes = 0;
};

/// Writes the arrays of one parameter through the two pieces in turns: one is written while the next is filled.
Result<void> save_param(TensorStore& store, Strategy& strategy, ParamId id, const castor_param_info& param,
                        const SavedShape& shape, Saving& saving) {
  std::uint64_t n_updates = 0;
  for (std::uint64_t first = 0; first < param.numel; first += shape.piece_values) {
    std::swap(saving.turns[0], saving.turns[1]);
    Piece& piece = *saving.turns[0];
    CASTOR_TRY(piece.wait());
    const std::uint64_t n = std::min(shape.piece_values, param.numel - first);
    castor_param_state state = state_of(id, first, n, shape, piece);
    CASTOR_TRY(strategy.values().read_state(state));
    if (const auto array = not_finite_in(state)) return not_finite_error(*array + " of " + param.name);
    n_updates = state.n_updates;
    for (std::uint64_t array = 0; array < shape.n_arrays; ++array)
      piece.moves_until(
          store.put(key_of(id, first / shape.piece_values, array), piece.bytes(array, n * shape.value_bytes)));
    saving.n_bytes += shape.n_arrays * n * shape.value_bytes;
  }
  saving.n_updates.push_back(n_updates);
  return {};
}

Result<void> load_param(TensorStore& store, StateTurner& turner, ParamId id, const castor_param_info& param,
                        const SavedShape& shape, std::uint64_t n_updates, Piece& piece) {
  for (std::uint64_t first = 0; first < param.numel; first += shape.piece_values) {
    const std::uint64_t n = std::min(shape.piece_values, param.numel - first);
    for (std::uint64_t array = 0; array < shape.n_arrays; ++array)
      piece.moves_until(
          store.get(key_of(id, first / shape.piece_values, array), piece.bytes(array, n * shape.value_bytes)));
    CASTOR_TRY(piece.wait());
    castor_param_state state = state_of(id, first, n, shape, piece);
    state.n_updates = n_updates;
    CASTOR_TRY(turner.write(state));
  }
  return {};
}

/// The parameters that have values: the only ones of which a strategy's own commit has states.
IndexedVector<RegisteredId, ParamId> registered_params(const ModelParams& params) {
  IndexedVector<RegisteredId, ParamId> registered;
  for (const ParamId id : params.ids())
    if (params[id].numel > 0) registered.push_back(id);
  return registered;
}

/// `text` in memory that is aligned for direct I/O.
Result<Buffer> buffer_of(HostResource& pages, const std::string& text) {
  CASTOR_ASSIGN(Buffer buffer, Buffer::allocate(pages, text.size()));
  std::memcpy(buffer.data(), text.data(), text.size());
  return buffer;
}

Result<std::unique_ptr<Checkpoint>> checkpoint_of(TensorStoreOptions options) {
  options.durability = Durability::commit;
  CASTOR_ASSIGN(auto store, TensorStore::open(options));
  return std::make_unique<Checkpoint>(join_list(options.folders), std::move(store));
}

}  // namespace

Checkpoint::Checkpoint(std::string folders, std::unique_ptr<TensorStore> store)
    : folders_(std::move(folders)), store_(std::move(store)) {}
Checkpoint::~Checkpoint() = default;

bool Checkpoint::is_in(const std::vector<std::filesystem::path>& folders) {
  return std::any_of(folders.begin(), folders.end(), [](const auto& folder) { return holds_store(folder.string()); });
}

std::uint64_t Checkpoint::bytes_of(const ModelParams& params, castor_optimizer optimizer) {
  std::uint64_t n_bytes = 0;
  for (const castor_param_info& param : params) {
    const SavedShape shape = saved_shape(param, optimizer);
    n_bytes += shape.n_arrays * shape.value_bytes * param.numel;
  }
  return n_bytes;
}

std::vector<std::string> Checkpoint::warnings() const { return store_->warnings(); }

std::optional<std::uint64_t> Checkpoint::step() const { return store_->committed_step(); }

Result<std::unique_ptr<Checkpoint>> Checkpoint::open_to_read(const std::vector<std::filesystem::path>& folders) {
  TensorStoreOptions options;
  options.read_only = true;
  for (const auto& folder : folders) options.folders.push_back(folder.string());
  return is_in(folders) ? checkpoint_of(options) : no_checkpoint(join_list(options.folders));
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::vector<std::filesystem::path>& folders) {
  TensorStoreOptions options;
  for (const auto& folder : folders) {
    std::error_code refused;
    std::filesystem::create_directories(folder, refused);
    if (refused)
      return Error{ErrorKind::io,
                   "the folder " + folder.string() + " for checkpoints cannot be made: " + refused.message()};
    options.folders.push_back(folder.string());
  }
  return checkpoint_of(options);
}

Result<SavedBytes> Checkpoint::save(const Trained& trained, ModelHost& model, Strategy& strategy, const RunState& run) {
  CASTOR_ASSIGN(const auto params, params_of(model));
  HostResource pages;
  CASTOR_ASSIGN(Piece one, Piece::make(pages));
  CASTOR_ASSIGN(Piece other, Piece::make(pages));
  Saving saving{{&one, &other}, {}};
  for (const ParamId id : params.ids())
    CASTOR_TRY(save_param(*store_, strategy, id, params[id], saved_shape(params[id], trained.optimizer), saving));
  CASTOR_TRY(one.wait());
  CASTOR_TRY(other.wait());
  Json header = run_header(trained, params, run);
  header["updates"] = saving.n_updates.entries();
  CASTOR_ASSIGN(const Buffer text, buffer_of(pages, header.dump()));
  CASTOR_TRY(store_->put(kHeaderKey, text.view()).wait());
  CASTOR_TRY(store_->commit(static_cast<std::uint64_t>(run.n_steps)).wait());
  return SavedBytes{saving.n_bytes, 0};
}

Result<std::string> Checkpoint::header() {
  HostResource pages;
  CASTOR_ASSIGN(const std::uint64_t n_bytes, store_->value_bytes(kHeaderKey));
  CASTOR_ASSIGN(const Buffer text, Buffer::allocate(pages, n_bytes));
  CASTOR_TRY(store_->get(kHeaderKey, text.view()).wait());
  return std::string(reinterpret_cast<const char*>(text.data()), n_bytes);
}

Result<RunState> Checkpoint::load(const Trained& trained, ModelHost& model, Strategy& strategy) {
  if (!step()) return no_checkpoint(folders_);
  CASTOR_ASSIGN(const auto params, params_of(model));
  CASTOR_ASSIGN(const auto committed, CommittedStates::find(*store_));
  if (committed) return load_committed(*committed, trained, params, strategy);
  CASTOR_ASSIGN(const std::string text, header());
  CASTOR_ASSIGN(const RunHeader was, read_run_header(folders_, text, trained, params));
  HostResource pages;
  CASTOR_ASSIGN(Piece piece, Piece::make(pages));
  StateTurner turner(strategy, params, was.orders);
  for (const ParamId id : params.ids())
    CASTOR_TRY(load_param(*store_, turner, id, params[id], saved_shape(params[id], trained.optimizer), was.updates[id],
                          piece));
  return was.run;
}

/// Loads the states that one strategy committed in its own layout into another strategy.
Result<RunState> Checkpoint::load_committed(const CommittedStates& states, const Trained& trained,
                                            const ModelParams& params, Strategy& strategy) {
  CASTOR_ASSIGN(const RunHeader was, read_run_header(folders_, states.note(), trained, params));
  const auto registered = registered_params(params);
  if (registered.size() != states.map().registered.size())
    return Error{ErrorKind::io, "the checkpoint in " + folders_ + " has states of " +
                                    std::to_string(states.map().registered.size()) + " parameters, its description " +
                                    std::to_string(registered.size()) + "; continue from another checkpoint"};
  StateTurner turner(strategy, params, was.orders);
  CASTOR_TRY(states.read([&](RegisteredId id, const StateValues& part) {
    const castor_param_info& param = params[registered[id]];
    const std::uint64_t each = is_opaque(param) ? value_bytes(param.dtype) : 1;
    return turner.write({sizeof(castor_param_state), number(registered[id]), part.first / each, part.n / each,
                         part.master, part.exp_avg, part.exp_avg_sq, part.n_updates, part.bytes});
  }));
  return was.run;
}

}  // namespace castor
