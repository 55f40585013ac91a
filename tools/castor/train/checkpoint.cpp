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

/// Three arrays of a piece, and the moves that use them.
class Piece {
 public:
  static Result<Piece> make(HostResource& pages) {
    Piece piece;
    for (Buffer& array : piece.arrays_) {
      CASTOR_ASSIGN(array, Buffer::allocate(pages, kPieceValues * sizeof(float)));
    }
    return piece;
  }

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
  std::array<Buffer, kNArrays> arrays_;
  std::vector<Event> moves_;
};

struct Param {
  std::string name;
  std::uint64_t numel = 0;
  bool trainable = false;
  std::uint64_t n_arrays() const { return trainable ? std::uint64_t{kNArrays} : 1; }
};

Result<std::vector<Param>> params_of(ModelHost& model) {
  const castor_host_v1& host = model.table();
  std::vector<Param> params;
  for (std::uint32_t id = 0; id < host.n_params(host.self); ++id) {
    castor_param_info info = {};
    if (host.param_info(host.self, id, &info) != CASTOR_OK) return Error{ErrorKind::failed, model.take_error()};
    params.push_back({info.name, info.numel, (info.flags & CASTOR_PARAM_TRAINABLE) != 0});
  }
  return params;
}

castor_param_state state_of(std::uint32_t id, std::uint64_t first, std::uint64_t n, Piece& piece) {
  return {sizeof(castor_param_state), id, first, n, piece.values(kMaster), piece.values(kExpAvg),
          piece.values(kExpAvgSq),    0};
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
  return std::unique_ptr<Checkpoint>(new Checkpoint(folder, std::move(store)));
}

Result<void> Checkpoint::save(const std::string& model_name, ModelHost& model, Strategy& strategy,
                              const RunState& run) {
  CASTOR_ASSIGN(const auto params, params_of(model));
  HostResource pages;
  CASTOR_ASSIGN(Piece one, Piece::make(pages));
  CASTOR_ASSIGN(Piece other, Piece::make(pages));
  Json list = Json::array();
  for (std::uint32_t id = 0; id < params.size(); ++id) {
    std::uint64_t n_updates = 0;
    for (std::uint64_t first = 0; first < params[id].numel; first += kPieceValues) {
      std::swap(one, other);
      CASTOR_TRY(one.wait());
      const std::uint64_t n = std::min(kPieceValues, params[id].numel - first);
      castor_param_state state = state_of(id, first, n, one);
      CASTOR_TRY(strategy.read_state(state));
      n_updates = state.n_updates;
      for (std::uint64_t array = 0; array < params[id].n_arrays(); ++array)
        one.moves_until(store_->put(key_of(id, first / kPieceValues, array), one.bytes(array, n)));
    }
    list.push_back({params[id].name, params[id].numel, params[id].trainable, n_updates});
  }
  CASTOR_TRY(one.wait());
  CASTOR_TRY(other.wait());
  const Json header = {{"castor_checkpoint", kFormat}, {"model", model_name}, {"run", json_of(run)}, {"params", list}};
  CASTOR_ASSIGN(const Buffer text, buffer_of(pages, header.dump()));
  CASTOR_TRY(store_->put(kHeaderKey, text.view()).wait());
  return store_->commit(static_cast<std::uint64_t>(run.n_steps)).wait();
}

Result<RunState> Checkpoint::load(const std::string& model_name, ModelHost& model, Strategy& strategy) {
  const std::string where = "--resume " + folder_.string();
  if (!step()) return Error{ErrorKind::usage, where + ": there is no checkpoint in that folder"};
  const auto foreign = [&](const std::string& why) {
    return Error{ErrorKind::usage, where + ": " + why + "; give the model that was trained there"};
  };
  HostResource pages;
  CASTOR_ASSIGN(const std::uint64_t header_bytes, store_->value_bytes(kHeaderKey));
  CASTOR_ASSIGN(const Buffer text, Buffer::allocate(pages, header_bytes));
  CASTOR_TRY(store_->get(kHeaderKey, text.view()).wait());
  const Json header =
      Json::parse(std::string(reinterpret_cast<const char*>(text.data()), header_bytes), nullptr, false);
  if (header.is_discarded() || header.value("castor_checkpoint", 0) != kFormat)
    return Error{ErrorKind::usage, where + ": what is in that folder is no checkpoint that this castor reads"};
  CASTOR_ASSIGN(const auto params, params_of(model));
  const Json& list = header.at("params");
  if (list.size() != params.size())
    return foreign("its model " + header.at("model").get<std::string>() + " has " + std::to_string(list.size()) +
                   " parameters, " + model_name + " has " + std::to_string(params.size()));
  CASTOR_ASSIGN(Piece piece, Piece::make(pages));
  for (std::uint32_t id = 0; id < params.size(); ++id) {
    const Param& param = params[id];
    if (Json{list[id][0], list[id][1], list[id][2]} != Json{param.name, param.numel, param.trainable})
      return foreign("its parameter " + list[id][0].dump() + " has " + list[id][1].dump() + " values, here " +
                     param.name + " has " + std::to_string(param.numel));
    for (std::uint64_t first = 0; first < param.numel; first += kPieceValues) {
      const std::uint64_t n = std::min(kPieceValues, param.numel - first);
      for (std::uint64_t array = 0; array < param.n_arrays(); ++array)
        piece.moves_until(store_->get(key_of(id, first / kPieceValues, array), piece.bytes(array, n)));
      CASTOR_TRY(piece.wait());
      castor_param_state state = state_of(id, first, n, piece);
      state.n_updates = list[id][3];
      CASTOR_TRY(strategy.write_state(state));
    }
  }
  return run_of(header.at("run"));
}

}  // namespace castor::train
