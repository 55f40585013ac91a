// SPDX-License-Identifier: Apache-2.0
#include <castor/states/state_io.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <castor/memory/sliced_job.h>

namespace castor {
namespace {

template <typename T>
T* behind(T* array, std::uint64_t n) {
  return array == nullptr ? nullptr : array + n;
}

/// The first values of one tile. Elements that belong to no tensor become 0; a frozen chunk has weights alone.
struct FirstValues {
  std::shared_ptr<const std::atomic<bool>> given_up;  // owners: as StateIo::Filling
  const StateIo::Fill* fill;                          ///< not to be called any more where the values were given up
  std::vector<TilePart> parts;
  std::optional<TileStates> states;
  std::byte* weights;  ///< of the whole chunk
  DType dtype;

  Result<void> write(std::uint64_t first, std::uint64_t n) const {
    if (*given_up) return Error{ErrorKind::interrupted, "the first values of the parameters were given up"};
    if (states) states->clear(first, n);
    std::vector<float> values;
    for (const TilePart& part : within(parts, &TilePart::in_tile, first, n)) {
      std::byte* const weight = weights + part.in_chunk * size_bytes(dtype);
      if (dtype == DType::u8) {
        CASTOR_TRY(fill->bytes(part.tensor, part.in_tensor, {weight, part.numel}));
        continue;
      }
      values.resize(part.numel);
      CASTOR_TRY(fill->fp32(part.tensor, part.in_tensor, values));
      if (states)
        states->write(part.in_tile, part.numel, weight, values.data(), nullptr, nullptr);
      else
        round_weights(values.data(), dtype, weight, part.numel);
    }
    return {};
  }
};

/// Tiles by which the thread may be ahead of the team: few enough to notice an interruption or a failure in time.
constexpr std::size_t kMostAhead = 8;

}  // namespace

/// The jobs of the team that write first values, in the order of their starts.
struct StateIo::Filling {
  struct Job {
    Event done;
    std::vector<Event> after;
  };

  /// Jobs that a drive holds up will not call `fill`; waits for the others, which may be calling it.
  ~Filling() {
    *given_up = true;
    for (const Job& job : jobs)
      if (std::all_of(job.after.begin(), job.after.end(), [](const Event& event) { return event.ready(); }))
        (void)job.done.wait();
  }

  const Fill& fill;
  std::deque<Job> jobs = {};
  std::shared_ptr<std::atomic<bool>> given_up = std::make_shared<std::atomic<bool>>();  // owners: this and the jobs
};

/// Waits for the first jobs until `n_left` are left.
Result<void> StateIo::wait_for_first(Filling& filling, std::size_t n_left) {
  Result<void> outcome;
  for (; filling.jobs.size() > n_left; filling.jobs.pop_front()) {
    const Event& done = filling.jobs.front().done;
    CASTOR_TRY(parts_.mover.join_host(done, "the first values of the parameters"));
    if (auto reached = done.wait(); outcome.ok()) outcome = std::move(reached);
  }
  return outcome;
}

Result<void> StateIo::initialise(const Fill& fill, const Progress& progress) {
  Filling filling{fill};
  const auto started = start_filling(progress, filling);
  const auto ended = wait_for_first(filling, 0);
  parts_.barrier.values_replaced();
  return started.ok() ? ended : started;
}

Result<void> StateIo::start_filling(const Progress& progress, Filling& filling) {
  std::uint64_t n_values = 0, n_done = 0;
  for (const ChunkShape& shape : parts_.states.layout().chunks) n_values += shape.numel;
  for (const PayloadId chunk : parts_.states.chunks()) {
    const ChunkShape& shape = parts_.states.shape(chunk);
    std::optional<TileId> previous;
    for (const TileId tile : shape.tiles()) {
      CASTOR_TRY(start_filling(chunk, tile, filling));
      if (previous) CASTOR_TRY(send_states_home(chunk, *previous));
      previous = tile;
      CASTOR_TRY(wait_for_first(filling, kMostAhead));
      if (parts_.interrupted())
        return Error{ErrorKind::interrupted, "interrupted while the parameters were initialised"};
    }
    CASTOR_TRY(send_states_home(chunk, previous.value()));
    CASTOR_TRY(send_payload_up(chunk));
    n_done += shape.numel;
    progress(static_cast<double>(n_done) / static_cast<double>(n_values));
  }
  return {};
}

/// Starts writing the first values of a tile.
Result<void> StateIo::start_filling(PayloadId chunk, TileId tile, Filling& filling) {
  const ChunkShape& shape = parts_.states.shape(chunk);
  const Access access = tile == TileId{} ? Access::overwrite : Access::update;
  std::vector<Need> needs = {{parts_.states.payload(chunk), Tier::host, access}};
  if (shape.trainable) needs.push_back({parts_.states.state(chunk, tile), Tier::host, Access::overwrite});
  Beside others{parts_.team};
  CASTOR_TRY(parts_.mover.begin(needs, &others));
  std::byte* const weights = on_host(parts_.states.payload(chunk));
  FirstValues values{filling.given_up, &filling.fill, parts_.states.parts_of(chunk, tile), {}, weights, shape.dtype};
  if (shape.trainable)
    values.states.emplace(parts_.states.tile_states(chunk, tile, on_host(parts_.states.state(chunk, tile))));
  HostTeam::Job job =
      sliced_job(shape.tile(tile).numel,
                 [values = std::move(values)](std::uint64_t first, std::uint64_t n) { return values.write(first, n); });
  job.urgency = number(chunk);
  job.after = others.after;
  const Event done = parts_.team.add(std::move(job));
  filling.jobs.push_back({done, std::move(others.after)});
  parts_.mover.end(needs, done);
  return {};
}

/// Sends the states of a tile to their home, because the next tiles need room on the host.
Result<void> StateIo::send_states_home(PayloadId chunk, TileId tile) {
  if (!parts_.states.shape(chunk).trainable) return {};
  const ChunkId states = parts_.states.state(chunk, tile);
  if (parts_.states.home(chunk) == Tier::device) CASTOR_TRY(parts_.mover.look(states, Tier::device));
  if (parts_.states.home(chunk) == Tier::nvme) return parts_.mover.push_down(states, Tier::host);
  return {};
}

/// Fetches the weights to the device where no tier is below the host: then their copy on the host can be released.
Result<void> StateIo::send_payload_up(PayloadId chunk) {
  if (parts_.chunks.below().spill() != nullptr) return {};
  const auto up = parts_.chunks.fetch(parts_.states.payload(chunk), Tier::device);
  return up.ok() || up.error().kind == ErrorKind::does_not_fit ? Result<void>() : up.error();
}

Result<void> StateIo::check(TensorId tensor, const StateValues& values) const {
  const TensorPlace& place = parts_.states.layout().tensors.at(tensor);
  if (parts_.states.shape(place.chunk).dtype == DType::u8 && values.n > 0 && values.bytes == nullptr)
    return Error{ErrorKind::usage, "a tensor of bytes has no fp32 values"};
  if (values.first <= place.numel && values.n <= place.numel - values.first)
    return parts_.barrier.complete(place.chunk);
  return Error{ErrorKind::usage, "values " + std::to_string(values.first) + " to " +
                                     std::to_string(values.first + values.n) + " of a tensor of " +
                                     std::to_string(place.numel) + " were asked for"};
}

/// The parts of `tensor` in the tile that `values` covers.
std::vector<TilePart> StateIo::parts_in(PayloadId chunk, TileId tile, TensorId tensor,
                                        const StateValues& values) const {
  std::vector<TilePart> parts = parts_.states.parts_of(chunk, tile);
  std::erase_if(parts, [tensor](const TilePart& part) { return part.tensor != tensor; });
  return within(parts, &TilePart::in_tensor, values.first, values.n);
}

Result<void> StateIo::read(TensorId tensor, StateValues& values) {
  CASTOR_TRY(check(tensor, values));
  const StatefulTensorMgr::Aside aside(parts_.mover);
  const TensorPlace& place = parts_.states.layout().tensors[tensor];
  const ChunkShape& shape = parts_.states.shape(place.chunk);
  values.n_updates = parts_.states.n_updates(tensor);
  if (!shape.trainable) return read_frozen(tensor, values);
  for (const TileId tile : shape.tiles())
    for (const TilePart& part : parts_in(place.chunk, tile, tensor, values))
      CASTOR_TRY(read_part(place.chunk, tile, part, values));
  return {};
}

/// Reads one part. Split masters need the weights too.
Result<void> StateIo::read_part(PayloadId chunk, TileId tile, const TilePart& part, const StateValues& values) {
  const DType dtype = parts_.states.shape(chunk).dtype;
  CASTOR_ASSIGN(const BufferView state, parts_.mover.hold(parts_.states.state(chunk, tile), Tier::host));
  const bool split = parts_.states.format().splits(dtype);
  auto weights = split ? parts_.mover.look(parts_.states.payload(chunk), Tier::host) : BufferView();
  const std::uint64_t at = part.in_tensor - values.first;
  Result<void> outcome;
  if (weights.ok()) {
    const TileStates from = parts_.states.tile_states(chunk, tile, state.data);
    const std::byte* const weight = behind(weights->data, part.in_chunk * size_bytes(dtype));
    const auto read = [&](std::uint64_t first, std::uint64_t n) {
      from.read(part.in_tile + first, n, behind(weight, first * size_bytes(dtype)), behind(values.master, at + first),
                behind(values.exp_avg, at + first), behind(values.exp_avg_sq, at + first));
      return Result<void>();
    };
    outcome = parts_.team.add(sliced_job(part.numel, read)).wait();
  }
  parts_.mover.unhold(parts_.states.state(chunk, tile), Tier::host);
  return weights.ok() ? outcome : weights.error();
}

Result<void> StateIo::write(TensorId tensor, const StateValues& values) {
  CASTOR_TRY(check(tensor, values));
  const PayloadId chunk = parts_.states.layout().tensors[tensor].chunk;
  const ChunkShape& shape = parts_.states.shape(chunk);
  for (const TileId tile : shape.trained_tiles())
    for (const TilePart& part : parts_in(chunk, tile, tensor, values)) {
      CASTOR_ASSIGN(const BufferView state, parts_.mover.hold(parts_.states.state(chunk, tile), Tier::host));
      const auto outcome = write_part(chunk, tile, part, state.data, values);
      parts_.mover.unhold(parts_.states.state(chunk, tile), Tier::host);
      CASTOR_TRY(outcome);
      CASTOR_TRY(send_states_home(chunk, tile));
    }
  if (!shape.trainable) CASTOR_TRY(write_frozen(tensor, values));
  parts_.states.n_updates(tensor) = values.n_updates;
  parts_.barrier.values_replaced();
  return send_payload_up(chunk);
}

Result<void> StateIo::write_part(PayloadId chunk, TileId tile, const TilePart& part, std::byte* state,
                                 const StateValues& values) {
  CASTOR_ASSIGN(const BufferView weights, edit_weights(chunk));
  CASTOR_TRY(parts_.mover.edit(parts_.states.state(chunk, tile), Tier::host));
  const std::uint64_t width = size_bytes(parts_.states.shape(chunk).dtype);
  const std::uint64_t at = part.in_tensor - values.first;
  const TileStates to = parts_.states.tile_states(chunk, tile, state);
  const auto write = [&](std::uint64_t first, std::uint64_t n) {
    to.write(part.in_tile + first, n, weights.data + (part.in_chunk + first) * width, values.master + at + first,
             behind<const float>(values.exp_avg, at + first), behind<const float>(values.exp_avg_sq, at + first));
    return Result<void>();
  };
  CASTOR_TRY(parts_.team.add(sliced_job(part.numel, write)).wait());
  parts_.chunks.written(parts_.states.state(chunk, tile), Tier::host);
  parts_.chunks.written(parts_.states.payload(chunk), Tier::host);
  return {};
}

Result<void> StateIo::take_weights(TensorId tensor) {
  const TensorPlace& place = parts_.states.layout().tensors.at(tensor);
  for (const TileId tile : parts_.states.shape(place.chunk).trained_tiles())
    for (const TilePart& part : parts_in(place.chunk, tile, tensor, {0, place.numel})) {
      CASTOR_ASSIGN(const BufferView state, parts_.mover.hold(parts_.states.state(place.chunk, tile), Tier::host));
      const auto outcome = take_part(place.chunk, tile, part, state.data);
      parts_.mover.unhold(parts_.states.state(place.chunk, tile), Tier::host);
      CASTOR_TRY(outcome);
      CASTOR_TRY(send_states_home(place.chunk, tile));
    }
  parts_.barrier.values_replaced();
  return {};
}

/// The weights stay as they are: they are their masters, rounded without a change.
Result<void> StateIo::take_part(PayloadId chunk, TileId tile, const TilePart& part, std::byte* state) {
  CASTOR_ASSIGN(const BufferView weights, parts_.mover.look(parts_.states.payload(chunk), Tier::host));
  CASTOR_TRY(parts_.mover.edit(parts_.states.state(chunk, tile), Tier::host));
  const DType dtype = parts_.states.shape(chunk).dtype;
  const TileStates to = parts_.states.tile_states(chunk, tile, state);
  const auto take = [&](std::uint64_t first, std::uint64_t n) {
    std::vector<float> masters(n);
    std::vector<std::byte> same(n * size_bytes(dtype));
    widen_weights(weights.data + (part.in_chunk + first) * size_bytes(dtype), dtype, masters.data(), n);
    to.write(part.in_tile + first, n, same.data(), masters.data(), nullptr, nullptr);
    return Result<void>();
  };
  CASTOR_TRY(parts_.team.add(sliced_job(part.numel, take)).wait());
  parts_.chunks.written(parts_.states.state(chunk, tile), Tier::host);
  return {};
}

Result<void> StateIo::read_frozen(TensorId tensor, const StateValues& values) {
  const TensorPlace& place = parts_.states.layout().tensors[tensor];
  const DType dtype = parts_.states.shape(place.chunk).dtype;
  CASTOR_ASSIGN(const BufferView weights, parts_.mover.look(parts_.states.payload(place.chunk), Tier::host));
  const std::byte* const from = weights.data + (place.offset + values.first) * size_bytes(dtype);
  if (dtype == DType::u8)
    std::copy_n(from, values.n, values.bytes);
  else
    widen_weights(from, dtype, values.master, values.n);
  return {};
}

Result<void> StateIo::write_frozen(TensorId tensor, const StateValues& values) {
  const TensorPlace& place = parts_.states.layout().tensors[tensor];
  const DType dtype = parts_.states.shape(place.chunk).dtype;
  CASTOR_ASSIGN(const BufferView weights, edit_weights(place.chunk));
  std::byte* const to = weights.data + (place.offset + values.first) * size_bytes(dtype);
  if (dtype == DType::u8)
    std::copy_n(values.bytes, values.n, to);
  else
    round_weights(values.master, dtype, to, values.n);
  parts_.chunks.written(parts_.states.payload(place.chunk), Tier::host);
  return {};
}

Result<void> StateIo::write_back() {
  CASTOR_TRY(parts_.barrier.complete_all());
  CASTOR_TRY(parts_.mover.write_back(parts_.states.map().chunks()));
  return parts_.barrier.complete_all();  // an update beside the thread may have failed meanwhile
}

Result<void> StateIo::take_spilled(const IndexedVector<TensorId, std::uint64_t>& n_updates) {
  CASTOR_TRY(parts_.barrier.complete_all());
  for (const ChunkId id : parts_.states.map().chunks()) parts_.chunks.below().spilled(id);
  for (const TensorId tensor : n_updates.ids()) parts_.states.n_updates(tensor) = n_updates[tensor];
  parts_.barrier.values_replaced();
  return {};
}

/// The weights on the host, ready for a change of part of them.
Result<BufferView> StateIo::edit_weights(PayloadId chunk) {
  CASTOR_TRY(parts_.mover.look(parts_.states.payload(chunk), Tier::host));
  return parts_.mover.edit(parts_.states.payload(chunk), Tier::host);
}

}  // namespace castor
