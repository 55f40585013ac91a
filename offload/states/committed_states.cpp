// SPDX-License-Identifier: Apache-2.0
#include <castor/states/committed_states.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <castor/states/tile_part.h>

#include <castor/rules/tile_states.h>

namespace castor {
namespace {

/// Values that are passed to `take` at once.
constexpr std::uint64_t kPieceValues = std::uint64_t{1} << 20;

/// A value of the store, in memory that is reused for the next one.
class Value {
 public:
  explicit Value(HostResource& pages) : pages_(pages) {}

  /// Reads the value of `key`. Errors: io, also where it does not have `n_bytes`.
  Result<void> load(TensorStore& store, std::uint64_t key, std::uint64_t n_bytes) {
    CASTOR_ASSIGN(const std::uint64_t stored_bytes, store.value_bytes(key));
    if (stored_bytes != n_bytes)
      return Error{ErrorKind::io, "key " + std::to_string(key) + " of the committed states holds " +
                                      std::to_string(stored_bytes) + " bytes, their description says " +
                                      std::to_string(n_bytes) + "; continue from another checkpoint"};
    if (buffer_.n_bytes() < n_bytes) {
      buffer_ = Buffer();
      CASTOR_ASSIGN(buffer_, Buffer::allocate(pages_, n_bytes));
    }
    return store.get(key, {buffer_.data(), n_bytes}).wait();
  }
  std::byte* data() const { return buffer_.data(); }

 private:
  HostResource& pages_;
  Buffer buffer_;
};

/// The parts of a frozen chunk, which has no tiles: its tensors, whole.
std::vector<TilePart> whole_tensors(const ChunkLayout& layout, PayloadId chunk) {
  std::vector<TilePart> parts;
  for (const TensorId tensor : layout.chunks[chunk].tensors) {
    const TensorPlace& place = layout.tensors[tensor];
    parts.push_back({tensor, place.numel, 0, place.offset, place.offset});
  }
  return parts;
}

/// One pass over all values.
class Reader {
 public:
  Reader(TensorStore& store, const StateMap& map, const CommittedStates::Take& take)
      : store_(store), map_(map), take_(take) {}

  Result<void> run() {
    for (auto& array : arrays_) array.resize(kPieceValues);
    for (const PayloadId chunk : map_.layout.chunks.ids()) CASTOR_TRY(read_chunk(chunk));
    return {};
  }

 private:
  /// Weights are read where they hold part of the masters, or are all there is.
  Result<void> read_chunk(PayloadId chunk) {
    const ChunkShape& shape = map_.layout.chunks[chunk];
    if (!shape.trainable || map_.format.splits(shape.dtype))
      CASTOR_TRY(weights_.load(store_, map_.key(map_.payload[chunk]), map_.payload_bytes(chunk)));
    if (!shape.trainable) return hand_out(chunk, {}, whole_tensors(map_.layout, chunk));
    for (const TileId tile : shape.tiles()) {
      CASTOR_TRY(states_.load(store_, map_.key(map_.states[chunk][tile]), map_.state_bytes(chunk, tile)));
      CASTOR_TRY(hand_out(chunk, tile, parts_of_tile(map_.layout, chunk, tile)));
    }
    return {};
  }

  Result<void> hand_out(PayloadId chunk, TileId tile, const std::vector<TilePart>& parts) {
    for (const TilePart& part : parts)
      for (std::uint64_t first = 0; first < part.numel; first += kPieceValues)
        CASTOR_TRY(hand_out_piece(chunk, tile, part, first));
    return {};
  }

  /// Frozen tensors have no moments.
  Result<void> hand_out_piece(PayloadId chunk, TileId tile, const TilePart& part, std::uint64_t first) {
    const ChunkShape& shape = map_.layout.chunks[chunk];
    StateValues states;
    states.first = part.in_tensor + first;
    states.n = std::min(kPieceValues, part.numel - first);
    states.n_updates = map_.n_updates[part.tensor];
    if (shape.dtype == DType::u8) {
      states.bytes = weights_.data() + part.in_chunk + first;
      return take_(map_.registered[part.tensor], states);
    }
    states.master = arrays_[0].data();
    if (shape.trainable) states.exp_avg = arrays_[1].data();
    if (shape.trainable && map_.format.keeps_exp_avg_sq) states.exp_avg_sq = arrays_[2].data();
    const std::byte* const weights =
        weights_.data() == nullptr ? nullptr : weights_.data() + (part.in_chunk + first) * size_bytes(shape.dtype);
    if (shape.trainable)
      TileStates(states_.data(), shape.tile(tile).numel, shape.dtype, map_.format)
          .read(part.in_tile + first, states.n, weights, states.master, states.exp_avg, states.exp_avg_sq);
    else
      widen_weights(weights, shape.dtype, states.master, states.n);
    return take_(map_.registered[part.tensor], states);
  }

  TensorStore& store_;
  const StateMap& map_;
  const CommittedStates::Take& take_;
  HostResource pages_;
  Value weights_{pages_}, states_{pages_};
  std::array<std::vector<float>, 3> arrays_;  ///< master, exp_avg, exp_avg_sq
};

}  // namespace

/// The number of words, the words, and the note.
std::vector<std::byte> CommittedStates::description(const StateMap& map, std::string_view note) {
  std::vector<std::uint64_t> words = encode_state_map(map);
  words.insert(words.begin(), words.size());
  std::vector<std::byte> bytes(words.size() * sizeof words[0] + note.size());
  std::memcpy(bytes.data(), words.data(), words.size() * sizeof words[0]);
  std::memcpy(bytes.data() + words.size() * sizeof words[0], note.data(), note.size());
  return bytes;
}

Result<std::optional<CommittedStates>> CommittedStates::find(TensorStore& store) {
  const auto n_bytes = store.value_bytes(kKey);
  if (!store.committed_step() || !n_bytes.ok()) return std::optional<CommittedStates>();
  HostResource pages;
  Value value(pages);
  CASTOR_TRY(value.load(store, kKey, *n_bytes));
  std::uint64_t n_words = 0;
  const std::uint64_t most_words = *n_bytes / sizeof n_words;
  if (most_words > 0) std::memcpy(&n_words, value.data(), sizeof n_words);
  if (most_words == 0 || n_words >= most_words)
    return Error{ErrorKind::io, "the description of the committed states is cut off; continue from another checkpoint"};
  std::vector<std::uint64_t> words(n_words);
  std::memcpy(words.data(), value.data() + sizeof n_words, n_words * sizeof n_words);
  CASTOR_ASSIGN(StateMap map, decode_state_map(words));
  const std::uint64_t note_at = (n_words + 1) * sizeof n_words;
  return std::optional(CommittedStates(
      store, std::move(map), std::string(reinterpret_cast<const char*>(value.data()) + note_at, *n_bytes - note_at)));
}

Result<void> CommittedStates::read(const Take& take) const { return Reader(*store_, map_, take).run(); }

}  // namespace castor
