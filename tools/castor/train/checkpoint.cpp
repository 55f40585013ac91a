// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <castor/io/tensor_store.h>
#include <castor/memory/host_resource.h>

#include "train/model_params.h"

namespace castor::train {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::uint64_t kHeaderKey = 0;

/// Values of one array that are moved at once, 4 MiB.
constexpr std::uint64_t kPieceValues = std::uint64_t{1} << 20;

enum Array : std::uint64_t { kMaster, kExpAvg, kExpAvgSq, kNArrays };

/// Unique as long as a parameter has less than 2^22 pieces, 4 Ti values.
std::uint64_t key_of(std::uint32_t param, std::uint64_t piece, std::uint64_t array) {
  return (std::uint64_t{param} + 1) << 24 | piece << 2 | array;
}

/// A piece of three arrays and the moves that use them; it outlives those.
class Piece {
 public:
  static Result<Piece> make(HostResource& pages) {
    Piece piece;
    for (Buffer& array : piece.arrays_) {
      CASTOR_ASSIGN(array, Buffer::allocate(pages, kPieceValues * sizeof(float)));
    }
    return piece;
  }
  ~Piece() { (void)wait(); }
  Piece(Piece&&) = default;
  Piece& operator=(Piece&&) = delete;

  float* values(std::uint64_t array) { return reinterpret_cast<float*>(arrays_[array].data()); }
  BufferView bytes(std::uint64_t array, std::uint64_t n) { return {arrays_[array].data(), n * sizeof(float)}; }
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

bool trainable(const castor_param_info& param) { return (param.flags & CASTOR_PARAM_TRAINABLE) != 0; }
std::uint64_t n_arrays(const castor_param_info& param) { return trainable(param) ? std::uint64_t{kNArrays} : 1; }

castor_param_state state_of(std::uint32_t id, std::uint64_t first, std::uint64_t n, Piece& piece) {
  return {sizeof(castor_param_state), id, first, n, piece.values(kMaster), piece.values(kExpAvg),
          piece.values(kExpAvgSq),    0};
}

/// Writes one parameter, through the pieces in turns: while one is written the next is filled. Gives its counter of updates.
Result<std::uint64_t> save_param(TensorStore& store, Strategy& strategy, std::uint32_t id,
                                 const castor_param_info& param, std::array<Piece*, 2>& turns) {
  std::uint64_t n_updates = 0;
  for (std::uint64_t first = 0; first < param.numel; first += kPieceValues) {
    std::swap(turns[0], turns[1]);
    Piece& piece = *turns[0];
    CASTOR_TRY(piece.wait());
    const std::uint64_t n = std::min(kPieceValues, param.numel - first);
    castor_param_state state = state_of(id, first, n, piece);
    CASTOR_TRY(strategy.read_state(state));
    n_updates = state.n_updates;
    for (std::uint64_t array = 0; array < n_arrays(param); ++array)
      piece.moves_until(store.put(key_of(id, first / kPieceValues, array), piece.bytes(array, n)));
  }
  return n_updates;
}

Result<void> load_param(TensorStore& store, Strategy& strategy, std::uint32_t id, const castor_param_info& param,
                        std::uint64_t n_updates, Piece& piece) {
  for (std::uint64_t first = 0; first < param.numel; first += kPieceValues) {
    const std::uint64_t n = std::min(kPieceValues, param.numel - first);
    for (std::uint64_t array = 0; array < n_arrays(param); ++array)
      piece.moves_until(store.get(key_of(id, first / kPieceValues, array), piece.bytes(array, n)));
    CASTOR_TRY(piece.wait());
    castor_param_state state = state_of(id, first, n, piece);
    state.n_updates = n_updates;
    CASTOR_TRY(strategy.write_state(state));
  }
  return {};
}

/// What the header says of a parameter: [name, values, whether it is trained, its counter of updates].
Json json_of(const castor_param_info& param, std::uint64_t n_updates) {
  return {param.name, param.numel, trainable(param), n_updates};
}

/// Why the parameters of the header `was` are not `params`; empty where they are.
std::string difference(const Json& was, const std::vector<castor_param_info>& params, const std::string& model_name) {
  const Json& list = was.at("params");
  if (list.size() != params.size())
    return "its model " + was.at("model").get<std::string>() + " has " + std::to_string(list.size()) + " parameters, " +
           model_name + " has " + std::to_string(params.size());
  for (std::uint32_t id = 0; id < params.size(); ++id)
    if (list[id] != json_of(params[id], list[id].at(3)))
      return "its parameter " + list[id][0].dump() + " has " + list[id][1].dump() + " values, here " + params[id].name +
             " has " + std::to_string(params[id].numel);
  return "";
}

Json json_of(const RunState& run) {
  Json object = {{"steps", run.n_steps}, {"scaler", nullptr}};
  if (run.scaler) object["scaler"] = {run.scaler->scale, run.scaler->growth_counter, run.scaler->hysteresis_left};
  return object;
}

RunState run_of(const Json& object) {
  RunState run;
  run.n_steps = object.at("steps");
  const Json& scaler = object.at("scaler");
  if (!scaler.is_null()) run.scaler = {scaler.at(0), scaler.at(1), scaler.at(2)};
  return run;
}

/// `text` as the store keeps it: bytes at an address that suits direct I/O.
Result<Buffer> buffer_of(HostResource& pages, const std::string& text) {
  CASTOR_ASSIGN(Buffer buffer, Buffer::allocate(pages, text.size()));
  std::memcpy(buffer.data(), text.data(), text.size());
  return buffer;
}

}  // namespace

Checkpoint::Checkpoint(std::filesystem::path folder, std::unique_ptr<TensorStore> store)
    : folder_(std::move(folder)), store_(std::move(store)) {}
Checkpoint::~Checkpoint() = default;

std::optional<std::uint64_t> Checkpoint::step() const { return store_->committed_step(); }

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::filesystem::path& folder) {
  std::error_code refused;
  std::filesystem::create_directories(folder, refused);
  if (refused)
    return Error{ErrorKind::io,
                 "the folder " + folder.string() + " for checkpoints cannot be made: " + refused.message()};
  TensorStoreOptions options;
  options.folders = {folder.string()};
  options.durability = Durability::commit;
  CASTOR_ASSIGN(auto store, TensorStore::open(options));
  return std::make_unique<Checkpoint>(folder, std::move(store));
}

Result<void> Checkpoint::save(const std::string& model_name, ModelHost& model, Strategy& strategy,
                              const RunState& run) {
  CASTOR_ASSIGN(const auto params, params_of(model));
  HostResource pages;
  CASTOR_ASSIGN(Piece one, Piece::make(pages));
  CASTOR_ASSIGN(Piece other, Piece::make(pages));
  std::array<Piece*, 2> turns = {&one, &other};
  Json list = Json::array();
  for (std::uint32_t id = 0; id < params.size(); ++id) {
    CASTOR_ASSIGN(const std::uint64_t n_updates, save_param(*store_, strategy, id, params[id], turns));
    list.push_back(json_of(params[id], n_updates));
  }
  CASTOR_TRY(one.wait());
  CASTOR_TRY(other.wait());
  const Json header = {{"castor_checkpoint", kFormat}, {"model", model_name}, {"run", json_of(run)}, {"params", list}};
  CASTOR_ASSIGN(const Buffer text, buffer_of(pages, header.dump()));
  CASTOR_TRY(store_->put(kHeaderKey, text.view()).wait());
  return store_->commit(static_cast<std::uint64_t>(run.n_steps)).wait();
}

Error Checkpoint::refused(const std::string& why) const {
  return {ErrorKind::usage, "--resume " + folder_.string() + ": " + why};
}

Result<std::string> Checkpoint::header() {
  if (!step()) return refused("there is no checkpoint in that folder");
  HostResource pages;
  CASTOR_ASSIGN(const std::uint64_t n_bytes, store_->value_bytes(kHeaderKey));
  CASTOR_ASSIGN(const Buffer text, Buffer::allocate(pages, n_bytes));
  CASTOR_TRY(store_->get(kHeaderKey, text.view()).wait());
  return std::string(reinterpret_cast<const char*>(text.data()), n_bytes);
}

Result<RunState> Checkpoint::load(const std::string& model_name, ModelHost& model, Strategy& strategy) {
  CASTOR_ASSIGN(const std::string text, header());
  const Json was = Json::parse(text, nullptr, false);
  if (was.is_discarded() || was.value("castor_checkpoint", 0) != kFormat)
    return refused("what is in that folder is no checkpoint that this castor reads");
  CASTOR_ASSIGN(const auto params, params_of(model));
  if (const std::string why = difference(was, params, model_name); !why.empty())
    return refused(why + "; give the model that was trained there");
  HostResource pages;
  CASTOR_ASSIGN(Piece piece, Piece::make(pages));
  for (std::uint32_t id = 0; id < params.size(); ++id) {
    CASTOR_TRY(load_param(*store_, strategy, id, params[id], was["params"][id][3], piece));
  }
  return run_of(was.at("run"));
}

}  // namespace castor::train
