// SPDX-License-Identifier: Apache-2.0
#include <castor/states/state_map.h>

#include <limits>
#include <string>
#include <utility>

namespace castor {
namespace {

constexpr std::uint64_t kVersion = 1;

/// Words of a tensor, and of a chunk before its states.
constexpr std::uint64_t kTensorWords = 5, kChunkWords = 6;

Error damaged(const std::string& what) {
  return {ErrorKind::io, "the description of the committed states " + what + "; continue from another checkpoint"};
}

/// Reads word after word; a word that is missing or too large reads as 0 and makes the reader not ok.
class WordReader {
 public:
  explicit WordReader(std::span<const std::uint64_t> words) : words_(words) {}

  std::uint64_t next(std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
    const bool there = at_ < words_.size() && words_[at_] <= most;
    ok_ = ok_ && there;
    return there ? words_[at_++] : 0;
  }
  std::uint32_t next_number() { return static_cast<std::uint32_t>(next(std::numeric_limits<std::uint32_t>::max())); }
  /// A count of items that take `n_words` each.
  std::uint64_t next_count(std::uint64_t n_words) { return next((words_.size() - at_) / n_words); }
  bool ok() const { return ok_; }
  bool done() const { return at_ == words_.size(); }

 private:
  const std::span<const std::uint64_t> words_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

void read_tensors(WordReader& reader, StateMap& map) {
  map.layout.tensors.resize(reader.next_count(kTensorWords));
  for (TensorPlace& place : map.layout.tensors) {
    place.chunk = PayloadId{reader.next_number()};
    place.offset = reader.next();
    place.numel = reader.next();
    map.registered.push_back(RegisteredId{reader.next_number()});
    map.n_updates.push_back(reader.next());
  }
}

/// Reads one chunk, with a number for the states of each of its tiles.
void read_chunk(WordReader& reader, StateMap& map) {
  ChunkShape shape;
  shape.dtype = static_cast<DType>(reader.next(static_cast<std::uint64_t>(DType::u8)));
  shape.trainable = reader.next(1) != 0;
  shape.numel = reader.next();
  shape.tile_numel = reader.next();
  map.payload.push_back(ChunkId{reader.next_number()});
  IndexedVector<TileId, ChunkId> states;
  for (std::uint64_t n = reader.next_count(1); n > 0; --n) states.push_back(ChunkId{reader.next_number()});
  map.layout.chunks.push_back(std::move(shape));
  map.states.push_back(std::move(states));
}

/// Enters the tensors into their chunks, in which they lie one after another by their numbers. Errors: io.
Result<void> enter_tensors(StateMap& map) {
  IndexedVector<PayloadId, std::uint64_t> ends(map.layout.chunks.size());
  for (const TensorId tensor : map.layout.tensors.ids()) {
    const TensorPlace& place = map.layout.tensors[tensor];
    const std::string text = "tensor " + std::to_string(number(tensor));
    if (index(map.registered[tensor]) >= map.layout.tensors.size()) return damaged("has no number for " + text);
    if (!ends.contains(place.chunk)) return damaged("puts " + text + " in no chunk");
    ChunkShape& shape = map.layout.chunks[place.chunk];
    const bool fits = place.offset >= ends[place.chunk] && place.offset <= shape.numel && place.numel > 0 &&
                      place.numel <= shape.numel - place.offset;
    if (!fits) return damaged("puts " + text + " outside its chunk or over another");
    ends[place.chunk] = place.offset + place.numel;
    shape.tensors.push_back(tensor);
  }
  return {};
}

Result<void> check_chunk(const StateMap& map, PayloadId chunk) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // elements: no sum or product below overflows
  const ChunkShape& shape = map.layout.chunks[chunk];
  const bool sound = shape.numel > 0 && shape.numel <= kMost && shape.tile_numel > 0 && shape.tile_numel <= shape.numel;
  if (sound && map.states[chunk].size() == (shape.trainable ? (shape.numel - 1) / shape.tile_numel + 1 : 0)) return {};
  return damaged("has a chunk " + std::to_string(number(chunk)) + " that cannot be");
}

}  // namespace

std::uint64_t StateMap::payload_bytes(PayloadId chunk) const {
  return layout.chunks[chunk].numel * size_bytes(layout.chunks[chunk].dtype);
}

std::uint64_t StateMap::state_bytes(PayloadId chunk, TileId tile) const {
  const ChunkShape& shape = layout.chunks[chunk];
  return shape.tile(tile).numel * format.bytes_per_element(shape.dtype);
}

std::vector<ChunkId> StateMap::chunks() const {
  std::vector<ChunkId> all = payload.entries();
  for (const auto& tiles : states) all.insert(all.end(), tiles.begin(), tiles.end());
  return all;
}

bool StateMap::same_places(const StateMap& other) const {
  return layout == other.layout && format == other.format && registered == other.registered &&
         payload == other.payload && states == other.states;
}

std::vector<std::uint64_t> encode_state_map(const StateMap& map) {
  std::vector<std::uint64_t> words = {kVersion,
                                      map.first_key,
                                      map.format.split_master,
                                      static_cast<std::uint64_t>(map.format.moments),
                                      map.format.rounding_seed,
                                      map.format.keeps_exp_avg_sq,
                                      map.layout.tensors.size()};
  for (const TensorId tensor : map.layout.tensors.ids()) {
    const TensorPlace& place = map.layout.tensors[tensor];
    words.insert(words.end(), {number(place.chunk), place.offset, place.numel, number(map.registered[tensor]),
                               map.n_updates[tensor]});
  }
  words.push_back(map.layout.chunks.size());
  for (const PayloadId chunk : map.layout.chunks.ids()) {
    const ChunkShape& shape = map.layout.chunks[chunk];
    words.insert(words.end(), {static_cast<std::uint64_t>(shape.dtype), shape.trainable, shape.numel, shape.tile_numel,
                               number(map.payload[chunk]), map.states[chunk].size()});
    for (const ChunkId states : map.states[chunk]) words.push_back(number(states));
  }
  return words;
}

Result<StateMap> decode_state_map(std::span<const std::uint64_t> words) {
  WordReader reader(words);
  if (const std::uint64_t version = reader.next(); version != kVersion)
    return damaged("is of version " + std::to_string(version) + ", this castor reads version " +
                   std::to_string(kVersion));
  StateMap map;
  map.first_key = reader.next();
  map.format.split_master = reader.next(1) != 0;
  map.format.moments = static_cast<MomentFormat>(reader.next(static_cast<std::uint64_t>(MomentFormat::bf16)));
  map.format.rounding_seed = reader.next();
  map.format.keeps_exp_avg_sq = reader.next(1) != 0;
  read_tensors(reader, map);
  for (std::uint64_t n = reader.next_count(kChunkWords); n > 0; --n) read_chunk(reader, map);
  if (!reader.ok() || !reader.done()) return damaged("is shorter or longer than it says");
  for (const PayloadId chunk : map.layout.chunks.ids()) CASTOR_TRY(check_chunk(map, chunk));
  CASTOR_TRY(enter_tensors(map));
  return map;
}

}  // namespace castor
