// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <castor/chunk/tensor_table.h>
#include <castor/memory/host_team.h>
#include <castor/memory/stream_spans.h>
#include <castor/rules/grad_norm.h>
#include <castor/optimizer/gradient_store.h>
#include <castor/plan/planner.h>
#include <castor/schedule/scheduler.h>
#include <castor/rules/state_format.h>
#include <castor/states/state_map.h>
#include <castor/rules/step_options.h>
#include <castor/states/tile_part.h>
#include <castor/rules/update_rule.h>

namespace castor {

class EarlyUpdates;
class HostNorm;
class KeptChunks;
class NormForecast;
class TeamDirections;
class TileStates;
class TileUpdate;

/// Part of what a tensor's training has come to: values `first` to `first` + n − 1, in host memory.
struct TensorStates {
  std::uint64_t first = 0, n = 0;
  float* master = nullptr;
  float *exp_avg = nullptr,
        *exp_avg_sq = nullptr;  ///< may be null; a frozen tensor has none, and some rules no exp_avg_sq
  std::uint64_t n_updates = 0;  ///< of the whole tensor: Adam's t
};

/// Updates on chunks: for each tile of a trained payload chunk (ChunkShape::tile) a state chunk with the arrays of its
/// elements (master, exp_avg and for most rules exp_avg_sq, as StateFormat says), updated on the tier that the Plan names. While one is updated the mover reads
/// the next ones ahead and writes the last ones behind. Where they overlap, updates on the host go on while the next forward
/// pass runs, what it needs first before all else: whoever needs a chunk waits for its own update alone. States that are
/// streamed come to the device meanwhile, and are updated right before their chunk is used.
///
/// Where a norm is asked for, and the last step's was not too large, chunks are updated early as well, as if this step's were
/// not too large either: speculatively. Until the norm is known the old states and weights are kept beside the new ones, and
/// where it is too large they take their place again.
///
/// Tensors without a gradient are skipped: moments, decay and step counter. The fp32 master decides; the weight in the
/// payload is its rounding.
///
/// Threads: one at a time.
class OffloadOptimizer {
 public:
  /// Borrowed; must outlive the optimizer.
  struct Parts {
    const ChunkLayout& layout;
    ChunkManager& chunks;
    StatefulTensorMgr& mover;
    Scheduler& scheduler;
    TensorTable& tensors;
    Device& device;
    Stream& compute;
    Stream& down;
    Timeline& timeline;
    StreamSpans& computed;  ///< of `compute`
    const std::vector<std::uint32_t>&
        registration_order;  ///< tensor numbers as the model registers them: the order in which norms combine
    std::function<bool()> interrupted;  ///< asked before every chunk
    HostTeam& team;                     ///< updates on the host
    bool overlap = false;               ///< the thread that trains does not wait for them
    StateFormat format = {};            ///< of the states of trained tensors
  };

  /// Waits for the updates under way.
  ~OffloadOptimizer();

  /// Registers the payload, gradient and state chunks. Errors: those of the kernels.
  static Result<std::unique_ptr<OffloadOptimizer>> make(Parts parts);

  /// The backward pass begins after which `step` is called with these options. Where they ask for a norm, gradients are
  /// measured as they come (without this call, where the step before asked for one); those that are added up, by `step`. With overlap chunks are then updated
  /// as soon as their gradients are complete, as far as the step before has shown when they are.
  /// Errors: failed, where an earlier step was not ended.
  [[nodiscard]] Result<void> announce(const StepOptions& options);

  /// A gradient, for GradientStore::add. Errors: those, and failed where the chunk was updated without it; then the model
  /// is between two steps.
  [[nodiscard]] Result<void> add_gradient(std::uint32_t tensor, ArrivedGradient gradient);

  /// A unit is about to use the weights of `payload_chunk`: makes their update, where it has waited for that. Errors: as
  /// step; failed, where the unit's backward pass is not over and the chunk was updated already.
  [[nodiscard]] Result<void> use(std::uint32_t payload_chunk);

  /// True where the weights of `payload_chunk` are not yet those of the step that is over.
  bool pending(std::uint32_t payload_chunk) const { return pending_.at(payload_chunk); }

  /// Makes the updates that wait for the next use of their chunk, and takes back those that are speculative. Errors: as step.
  [[nodiscard]] Result<void> make_pending();

  /// Gives back gradients that have been read, and updates what is complete and not in use. Errors: as step.
  [[nodiscard]] Result<void> update_early();

  ChunkId payload(std::uint32_t payload_chunk) const { return payload_.at(payload_chunk); }
  ChunkId state(std::uint32_t payload_chunk, std::uint32_t tile = 0) const { return state_.at(payload_chunk).at(tile); }
  GradientStore& gradients() { return *gradients_; }
  const Plan& plan() const { return plan_; }

  /// Takes the homes of the states over, after the updates that wait. From the next gradient on; requires that none waits.
  /// Errors: as step.
  [[nodiscard]] Result<void> adopt(Plan plan);

  /// How iterations will go under the plan that was adopted last, where one went as `trace` under a plan that differs in
  /// that no states were streamed: what the mover may expect, which spares it iterations without a plan. A guess; nothing but
  /// time hangs on it.
  AccessTrace forecast(const AccessTrace& trace) const;

  /// Writes `values`, the fp32 values of `tensor` from number `first` on; by several threads at once.
  using Fill = std::function<Result<void>(std::uint32_t tensor, std::uint64_t first, std::span<float> values)>;

  /// Hears which share of the first values there is, or will be in a second or two. On the calling thread.
  using Told = std::function<void(double share)>;

  /// Writes every tensor's first values, tile by tile, by the team, never more than the budgets allow. Errors: those of
  /// the mover and of `fill`, interrupted.
  [[nodiscard]] Result<void> initialise(
      const Fill& fill, const Told& told = [](double) {});

  /// Updates every tile from its gradients, in the order in which the next forward pass needs them, and forgets the
  /// gradients. With overlap it returns when the updates are queued, or wait for the next use of their chunk. Errors: those of the mover, interrupted, that with
  /// which a gradient was lost; after the first chunk was updated an error leaves the model between two steps, and every
  /// later step says so. One of an update beside the thread comes from whoever needs its chunk, and from the next step.
  [[nodiscard]] Result<StepScale> step(const StepOptions& options);

  /// Copies the fp32 master of `tensor` to `out`: the master itself, or for a frozen tensor its weight in fp32.
  [[nodiscard]] Result<void> read_master(std::uint32_t tensor, float* out);

  /// Fills the arrays that are not null, and n_updates; of a frozen tensor the master is its weight in fp32. Between two
  /// steps, waits for the updates of what it reads. Errors: usage, where the tensor has no such values or is updated early;
  /// failed, where an update failed.
  [[nodiscard]] Result<void> read_states(std::uint32_t tensor, TensorStates& states);

  /// Takes over what was read, here or elsewhere, and the weights that follow from it; the next iteration is recorded anew.
  /// Errors: as read_states.
  [[nodiscard]] Result<void> write_states(std::uint32_t tensor, const TensorStates& states);

  /// Which elements lie in which chunk, and how often each tensor was updated so far. Keys are left open.
  StateMap state_map() const;

  /// Has all weights and states below the host as well (StatefulTensorMgr::write_back). Between two steps, waits for the
  /// updates under way. Errors: those; usage between an early update and its step; failed, where an update failed.
  [[nodiscard]] Result<void> write_back();

  /// All weights and states are, from here on, what the tier below the host has under their chunks' numbers, and the tensors
  /// were updated so often; the next iteration is recorded anew. Between two steps. Errors: failed, where an update failed.
  [[nodiscard]] Result<void> take_spilled(std::vector<std::uint64_t> n_updates);

 private:
  using Part = TilePart;

  /// Updates of a chunk beside the thread that are made as if gradients were not to be scaled down.
  struct Speculation {
    std::vector<Event> updates;
    /// Nobody will look at what they write, so they need not go on.
    std::shared_ptr<std::atomic<bool>> vain =
        std::make_shared<std::atomic<bool>>(false);  // owners: this and their jobs
  };

  explicit OffloadOptimizer(Parts parts);
  ChunkId add_states(std::uint32_t i, std::uint32_t tile);
  Result<void> start_filling(const Fill& fill, const Told& told, std::deque<Event>& filling);
  Result<Event> start_filling(std::uint32_t i, std::uint32_t tile, const Fill& fill);
  Result<void> send_states_home(std::uint32_t i, std::uint32_t tile);
  Result<void> send_payload_up(std::uint32_t i);
  Result<StepScale> measure(const StepOptions& options);
  bool measured(std::uint32_t i) const;
  Result<void> measure_chunk(std::uint32_t i, std::vector<HostNorm>& on_host);
  double* sums() { return reinterpret_cast<double*>(sums_.data()); }
  Result<void> update_chunk(std::uint32_t i, const StepOptions& options, double grad_scale);
  Result<void> update_tiles(std::uint32_t i, const StepOptions& options, double grad_scale);
  Result<void> update_tile(std::uint32_t i, std::uint32_t tile, const StepOptions& options, double grad_scale,
                           TeamDirections& directions);
  std::array<Need, 3> update_needs(std::uint32_t i, std::uint32_t tile, const StepOptions& options) const;
  bool looks_at_weights(std::uint32_t i, const StepOptions& options) const;
  Result<void> measure_tensors(std::uint32_t i, std::uint32_t tile, const StepOptions& options, double grad_scale,
                               TeamDirections& directions, std::vector<Event>& after);
  Result<void> measure_trust(std::uint32_t i, const StepOptions& options, double grad_scale, std::vector<Event>& after);
  Result<void> measure_trust_on_gpu(std::uint32_t i, const StepOptions& options, double grad_scale);
  Result<void> measure_cut_tensors(std::uint32_t i, const StepOptions& options, double grad_scale,
                                   TeamDirections& directions);
  Result<void> measure_tile(std::uint32_t i, std::uint32_t tile, const StepOptions& options, double grad_scale,
                            TeamDirections& directions);
  Result<void> measure_directions(std::uint32_t i, std::uint32_t tile, const std::vector<Part>& parts,
                                  const StepOptions& options, double grad_scale, TeamDirections& directions,
                                  const std::vector<Event>& after);
  std::vector<Part> measured_parts(std::uint32_t i, std::uint32_t tile, bool cut) const;
  Result<TrustRatios*> device_trust();
  const float* trust_of(std::uint32_t tensor) const;
  TrustedTensor trusted(std::uint32_t tensor) const;
  bool updates_on_gpu(std::uint32_t i) const;
  UpdateCoefficients coefficients(std::uint32_t tensor, std::uint64_t t, const StepOptions& options,
                                  double grad_scale) const;
  TileUpdate update_of(std::uint32_t i, std::uint32_t tile, const StepOptions& options, double grad_scale);
  Event start(std::uint32_t i, std::uint32_t tile, TileUpdate update, std::vector<Event> after);
  Checksums start_checksums(std::uint32_t i, std::uint32_t tile, Event& updated);
  bool speculated(std::uint32_t i) const { return speculative_.contains(i); }
  bool can_speculate(std::uint32_t i) const;
  IterationKind next_kind() const;
  Result<void> speculate(std::uint32_t i);
  std::vector<ChunkId> written_by_update(std::uint32_t i) const;
  void keep_old(std::uint32_t i, std::uint32_t tile);
  void read_old_until(std::uint32_t i, std::uint32_t tile, const Event& updated);
  Result<bool> settle_speculation(const StepOptions& options, const StepScale& scale);
  Result<void> take_back(std::uint32_t i);
  Result<void> put_back(std::uint32_t i, ChunkId id);
  void forget_speculation(std::uint32_t i);
  Result<void> take_back_all();
  Result<void> update_on_gpu(std::uint32_t i, std::uint32_t tile, const TileUpdate& update);
  Result<void> update_rest(const StepOptions& options, double grad_scale);
  bool early(std::uint32_t i) const;
  Result<void> check_states(std::uint32_t tensor, const TensorStates& states);
  std::vector<Part> parts_in(std::uint32_t i, std::uint32_t tile, std::uint32_t tensor,
                             const TensorStates& states) const;
  Result<void> read_part(std::uint32_t i, std::uint32_t tile, const Part& part, const TensorStates& states);
  Result<void> write_part(std::uint32_t i, std::uint32_t tile, const Part& part, std::byte* state,
                          const TensorStates& states);
  Result<void> write_frozen(std::uint32_t tensor, const TensorStates& states);
  Result<BufferView> edit_weights(std::uint32_t i);
  void measure_arrival(std::uint32_t tensor, const void* grad);
  Result<void> whole();
  Error broken_promise(std::uint32_t payload_chunk, const std::string& what);
  std::vector<Part> parts_of(std::uint32_t i, std::uint32_t tile) const;
  AdamArrays arrays(std::uint32_t i, std::uint32_t tile, const Part& part) const;
  TileStates states_at(std::uint32_t i, std::uint32_t tile, std::byte* data) const;
  void finish_step(bool as_expected);
  Tier update_tier(std::uint32_t i) const { return plan_.update_tier(i); }
  bool waits_for_use(std::uint32_t i) const { return parts_.overlap && plan_.streamed[i]; }
  void defer(std::uint32_t i, const StepOptions& options, double grad_scale);
  Result<void> make_all_pending();
  Result<void> make_pending(std::uint32_t i);
  std::uint32_t n_chunks() const { return static_cast<std::uint32_t>(parts_.layout.chunks.size()); }

  const Parts parts_;
  Plan plan_;
  std::vector<ChunkId> payload_;
  std::vector<std::vector<ChunkId>> state_;  ///< by payload chunk and tile; a frozen one has none
  std::unique_ptr<GradientStore> gradients_;
  std::vector<std::uint64_t> n_updates_;         ///< by tensor: Adam's t
  std::vector<std::uint32_t> registered_;        ///< by tensor: its place in the order of registration
  std::optional<UpdateKernels> device_kernels_;  ///< from make on
  const UpdateKernels host_kernels_ = UpdateKernels::make_host();
  std::unique_ptr<GradNormKernel> device_norm_;
  std::vector<float> host_trust_;  ///< by tensor: its ratio, where updates on the host find it
  std::unique_ptr<TrustRatios>
      device_trust_;            ///< where those of a GPU find it; from the first step that asks for ratios
  Buffer sums_;                 ///< of squares: a double per tensor in memory that the device writes to without waiting
  std::vector<bool> measured_;  ///< by tensor: sums_ has, or will have, that of its only gradient in this step
  bool wants_norm_ = false;     ///< gradients are measured as they come
  std::unique_ptr<EarlyUpdates> early_;
  StepOptions announced_;
  bool begun_ = false;         ///< some chunk of this step is updated, or queued to be
  bool poisoned_ = false;      ///< and some will never be
  std::vector<bool> pending_;  ///< by chunk: its update waits for the next use
  StepOptions pending_options_;
  double pending_scale_ = 1;
  std::unique_ptr<KeptChunks> kept_;                  ///< what speculative updates wrote anew
  std::map<std::uint32_t, Speculation> speculative_;  ///< by chunk
  std::unique_ptr<NormForecast> norm_forecast_;
  std::vector<Event> updates_;     ///< beside the thread, not known yet how they end
  std::vector<Event> taken_back_;  ///< likewise, and it does not matter
  Result<void> failed_update_;     ///< the first of them that failed
};

}  // namespace castor
