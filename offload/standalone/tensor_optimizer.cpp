// SPDX-License-Identifier: Apache-2.0
#include <castor/standalone/tensor_optimizer.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <castor/memory/device.h>
#include <castor/memory/even_share.h>
#include <castor/memory/host_team.h>
#include <castor/rules/tile_states.h>
#include <castor/rules/update_parts.h>

#include "state_tiles.h"

namespace castor {
namespace {

/// The number of an update whose bias is as good as none.
constexpr std::uint64_t kManyUpdates = std::uint64_t{1} << 62;

std::byte* at(void* values, DType dtype, std::uint64_t first) {
  return static_cast<std::byte*>(values) + first * size_bytes(dtype);
}

const std::byte* at(const void* values, DType dtype, std::uint64_t first) {
  return static_cast<const std::byte*>(values) + first * size_bytes(dtype);
}

/// The part of a tensor's values that belongs to a tile; null where there are none.
float* from(const StateTile& tile, float* values) { return values == nullptr ? nullptr : values + tile.first; }

/// Makes the masters of 16-bit weights follow those that the program has changed: that are not their masters, rounded.
template <typename Round, typename Widen>
void follow(const UpdateArrays& arrays, const Round& round, const Widen& widen) {
  const auto* const weight = static_cast<const std::uint16_t*>(arrays.weight);
  for (std::uint64_t i = 0; i < arrays.n; ++i)
    if (round(arrays.master[i]) != weight[i]) arrays.master[i] = widen(weight[i]);
}

void follow(const UpdateArrays& arrays) {
  if (arrays.weight_dtype == DType::bf16) follow(arrays, round_to_bf16, bf16_to_float);
  if (arrays.weight_dtype == DType::f16) follow(arrays, round_to_f16, f16_to_float);
}

class Standalone final : public TensorOptimizer {
 public:
  Standalone(std::span<const TrainedTensor> tensors, const TensorOptimizerOptions& options)
      : options_(options),
        format_{.keeps_exp_avg_sq = options.keeps_exp_avg_sq, .fp32_is_master = true},
        tensors_(tensors.begin(), tensors.end()),
        n_updates_(tensors.size()),
        tiles_of_(tensors.size()) {}

  Result<void> open();
  Result<void> step(std::span<const TensorUpdate> updates, double grad_scale) override;
  Result<void> read(std::uint32_t tensor, const void* weight, TensorStates& states) override;
  Result<void> write(std::uint32_t tensor, void* weight, const TensorStates& states) override;
  std::vector<std::string> warnings() const override {
    return window_ ? window_->store().warnings() : std::vector<std::string>();
  }
  std::uint64_t bytes_read() const override { return window_ ? window_->store().stats().bytes_read : 0; }
  std::uint64_t bytes_written() const override { return window_ ? window_->store().stats().bytes_written : 0; }

 private:
  /// A tile, and what is done with its arrays.
  struct Work {
    StateTile* tile;
    void* weight;
    std::function<Result<void>(const TileStates&, const UpdateArrays&)> run;
    bool changes = true;
  };

  void cut(std::uint32_t tensor);
  Result<void> place();
  Result<void> check(std::span<const TensorUpdate> updates) const;
  Result<void> run(std::span<const Work> work);
  Result<void> run(const Work& work, std::byte* states);
  Result<void> update(const TensorUpdate& update, const StateTile& tile, UpdateArrays arrays, double grad_scale);
  Result<const float*> trust(const TensorUpdate& update, const UpdateArrays& arrays,
                             const UpdateCoefficients& coefficients, double grad_scale);
  std::uint64_t t_of(const TensorUpdate& update) const {
    return update.corrects_bias ? n_updates_[update.tensor] + 1 : kManyUpdates;
  }
  std::uint64_t bytes_of(const StateTile& tile) const {
    return tile.kept() * format_.bytes_per_element(tensors_[tile.tensor].dtype);
  }

  const TensorOptimizerOptions options_;
  const StateFormat format_;
  const std::vector<TrainedTensor> tensors_;
  std::vector<std::uint64_t> n_updates_;
  std::vector<std::vector<StateTile>> tiles_of_;
  HostResource host_;
  std::unique_ptr<Device> cpu_ = make_cpu_device();
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<HostTeam> team_;
  std::optional<UpdateKernels> kernels_;
  std::unique_ptr<TrustRatios> ratios_;
  std::unique_ptr<TileWindow> window_;
  bool failed_ = false;  ///< part of the tensors are one step ahead of the others
};

Result<void> Standalone::open() {
  if (!(options_.nvme_fraction >= 0 && options_.nvme_fraction <= 1))
    return Error{
        ErrorKind::usage,
        "nvme_offload_fraction is " + std::to_string(options_.nvme_fraction) + "; it takes a share from 0 to 1",
        "nvme_offload_fraction"};
  if (options_.nvme_fraction > 0 && options_.folders.empty())
    return Error{ErrorKind::usage, "nvme_offload_fraction is set, but no folder is named", "nvme_offload_dir"};
  for (const TrainedTensor& tensor : tensors_)
    if (tensor.dtype != DType::f32 && tensor.dtype != DType::bf16 && tensor.dtype != DType::f16)
      return Error{ErrorKind::usage,
                   std::string("tensors that are trained are fp32, fp16 or bf16, not ") + name(tensor.dtype)};
  for (std::uint32_t id = 0; id < tensors_.size(); ++id) cut(id);
  CASTOR_TRY(place());
  CASTOR_ASSIGN(stream_, cpu_->make_stream());
  CASTOR_ASSIGN(team_, make_host_team(options_.n_threads, options_.n_spared_cpus));
  kernels_.emplace(UpdateKernels::make_host());
  return {};
}

/// A tensor that may go to NVMe is cut into tiles; others are one tile.
void Standalone::cut(std::uint32_t tensor) {
  const std::uint64_t n = tensors_[tensor].n;
  const std::uint64_t most = options_.nvme_fraction > 0 ? kStandaloneTile : std::max<std::uint64_t>(n, 1);
  for (std::uint64_t first = 0; first < n; first += most)
    tiles_of_[tensor].push_back({tensor, first, std::min(most, n - first), {}, {}, false});
}

Result<void> Standalone::place() {
  EvenShare there(options_.nvme_fraction);
  std::uint64_t n_keys = 0, largest_bytes = 0;
  for (auto& tiles : tiles_of_) {
    for (StateTile& tile : tiles) {
      if (there.take(static_cast<double>(bytes_of(tile)))) {
        tile.key = n_keys++;
        largest_bytes = std::max(largest_bytes, bytes_of(tile));
      } else {
        CASTOR_ASSIGN(tile.states, Buffer::allocate(host_, bytes_of(tile)));
      }
    }
  }
  if (n_keys > 0) {
    CASTOR_ASSIGN(window_, TileWindow::make(options_.folders, largest_bytes));
  }
  return {};
}

Result<void> Standalone::check(std::span<const TensorUpdate> updates) const {
  if (failed_)
    return Error{ErrorKind::failed,
                 "an earlier step of this optimizer failed after part of the tensors were updated; load a checkpoint "
                 "of the model and of the optimizer"};
  std::vector<bool> seen(tensors_.size());
  for (const TensorUpdate& update : updates) {
    if (update.tensor >= tensors_.size() || seen[update.tensor])
      return Error{ErrorKind::usage, "there is no tensor " + std::to_string(update.tensor) + ", or it is named twice"};
    seen[update.tensor] = true;
    const auto& tiles = tiles_of_[update.tensor];
    const bool whole = tiles.empty() || (tiles.size() == 1 && !tiles.front().key);
    if (!whole && trust_terms(update.rule, 1))
      return Error{ErrorKind::usage, "LAMB and LARS measure whole tensors, so their states are not kept on NVMe",
                   "nvme_offload_fraction"};
  }
  return {};
}

Result<void> Standalone::step(std::span<const TensorUpdate> updates, double grad_scale) {
  CASTOR_TRY(check(updates));
  std::vector<Work> work;
  for (const TensorUpdate& update : updates)
    for (StateTile& tile : tiles_of_[update.tensor])
      work.push_back({&tile, at(update.weight, tensors_[update.tensor].dtype, tile.first),
                      [&, this](const TileStates&, const UpdateArrays& arrays) {
                        return this->update(update, tile, arrays, grad_scale);
                      }});
  const auto done = run(work);
  if (!done.ok()) return failed_ = true, done.error();
  for (const TensorUpdate& update : updates) ++n_updates_[update.tensor];
  return {};
}

/// In the order of `work`; tiles on NVMe are asked for ahead of their turn.
Result<void> Standalone::run(std::span<const Work> work) {
  std::vector<const Work*> there;
  for (const Work& one : work)
    if (one.tile->key) there.push_back(&one);
  std::size_t n_asked = 0, n_run = 0;
  const auto all = [&]() -> Result<void> {
    for (const Work& one : work) {
      if (!one.tile->key) {
        CASTOR_TRY(run(one, one.tile->states.data()));
        continue;
      }
      for (; n_asked < there.size() && n_asked < n_run + TileWindow::kAhead; ++n_asked)
        CASTOR_TRY(window_->ask(*there[n_asked]->tile, bytes_of(*there[n_asked]->tile)));
      CASTOR_ASSIGN(const BufferView states, window_->take());
      CASTOR_TRY(run(one, states.data));
      window_->put_back(*one.tile, one.changes);
      ++n_run;
    }
    return {};
  };
  const auto done = all();
  if (!done.ok() && window_) window_->give_up();
  return done;
}

Result<void> Standalone::run(const Work& work, std::byte* states) {
  StateTile& tile = *work.tile;
  const TileStates stored(states, tile.kept(), tensors_[tile.tensor].dtype, format_);
  UpdateArrays arrays;
  arrays.n = tile.n, arrays.weight = work.weight, arrays.weight_dtype = tensors_[tile.tensor].dtype;
  stored.point(arrays, 0);
  if (!tile.has_states) stored.clear(0, tile.n);
  const auto follow_part = [](const UpdateArrays& part) { return follow(part), Result<void>(); };
  if (arrays.weight_dtype != DType::f32) CASTOR_TRY(team_->add(job_of_parts(arrays, follow_part)).wait());
  CASTOR_TRY(work.run(stored, arrays));
  if (work.changes) tile.has_states = true;
  return {};
}

Result<void> Standalone::update(const TensorUpdate& update, const StateTile& tile, UpdateArrays arrays,
                                double grad_scale) {
  arrays.grad = at(update.grad, update.grad_dtype, tile.first), arrays.grad_dtype = update.grad_dtype;
  UpdateNumber number{t_of(update), RegisteredId{update.tensor}, 0, nullptr};
  CASTOR_ASSIGN(number.trust, trust(update, arrays, update_coefficients(update.rule, number, grad_scale), grad_scale));
  const UpdateCoefficients coefficients = update_coefficients(update.rule, number, grad_scale);
  const auto update_part = [&](const UpdateArrays& part) { return kernels_->update(*stream_, coefficients, part); };
  return team_->add(job_of_parts(arrays, update_part)).wait();
}

/// The ratio of a rule that has one; null for others.
Result<const float*> Standalone::trust(const TensorUpdate& update, const UpdateArrays& arrays,
                                       const UpdateCoefficients& coefficients, double grad_scale) {
  const auto terms = trust_terms(update.rule, grad_scale);
  if (!terms) return static_cast<const float*>(nullptr);
  if (!ratios_) {
    CASTOR_ASSIGN(ratios_, TrustRatios::make(*cpu_, static_cast<std::uint32_t>(tensors_.size())));
  }
  if (measures_direction(update.rule))
    CASTOR_TRY(ratios_->measure(*stream_, update.tensor, *terms, std::get<LambCoefficients>(coefficients),
                                MeasuredPart{arrays, 0, arrays.n}));
  else
    CASTOR_TRY(ratios_->measure(*stream_, update.tensor, *terms,
                                {arrays.weight, arrays.weight_dtype, arrays.grad, arrays.grad_dtype, arrays.n}));
  return ratios_->of(update.tensor);
}

Result<void> Standalone::read(std::uint32_t tensor, const void* weight, TensorStates& states) {
  states.n_updates = n_updates_.at(tensor);
  std::vector<Work> work;
  for (StateTile& tile : tiles_of_[tensor])
    work.push_back({&tile, at(const_cast<void*>(weight), tensors_[tensor].dtype, tile.first),
                    [&](const TileStates& stored, const UpdateArrays& arrays) -> Result<void> {
                      stored.read(0, tile.n, static_cast<const std::byte*>(arrays.weight), from(tile, states.master),
                                  from(tile, states.exp_avg), from(tile, states.exp_avg_sq));
                      return {};
                    },
                    false});
  return run(work);
}

Result<void> Standalone::write(std::uint32_t tensor, void* weight, const TensorStates& states) {
  std::vector<Work> work;
  for (StateTile& tile : tiles_of_[tensor])
    work.push_back({&tile, at(weight, tensors_[tensor].dtype, tile.first),
                    [&](const TileStates& stored, const UpdateArrays& arrays) -> Result<void> {
                      stored.write(0, tile.n, static_cast<std::byte*>(arrays.weight), from(tile, states.master),
                                   from(tile, states.exp_avg), from(tile, states.exp_avg_sq));
                      return {};
                    }});
  CASTOR_TRY(run(work));
  n_updates_[tensor] = states.n_updates;
  return {};
}

}  // namespace

Result<std::unique_ptr<TensorOptimizer>> TensorOptimizer::make(std::span<const TrainedTensor> tensors,
                                                               const TensorOptimizerOptions& options) {
  auto made = std::make_unique<Standalone>(tensors, options);
  CASTOR_TRY(made->open());
  return std::unique_ptr<TensorOptimizer>(std::move(made));
}

}  // namespace castor
