// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <castor/chunk/chunk_manager.h>
#include <castor/engine/engine_options.h>
#include <castor/engine/machine.h>
#include <castor/engine/team_size.h>
#include <castor/memory/stream_spans.h>
#include <castor/memory/timeline.h>
#include <castor/mover/activation_store.h>
#include <castor/optimizer/offload_optimizer.h>
#include <castor/plan/placement.h>
#include <castor/schedule/planner.h>
#include <castor/schedule/scheduler.h>
#include <castor/states/slot_pages.h>

#include "bindings.h"
#include "device_watch.h"
#include "engine_memory.h"
#include "model_shape.h"
#include "step_recorder.h"

namespace castor {

/// The collaborators of an engine, in the order of their construction: each may use those before it.
struct EngineRooms {
  /// Errors: those of the machine, the layout, the team and the kernels.
  static Result<std::unique_ptr<EngineRooms>> make(ModelHost& host, const EngineOptions& options,
                                                   const Machine& machine);
  ~EngineRooms();

  /// Gives up what is on its way to or from a drive (TensorStore::abandon). Nothing may be moved after that.
  void give_up_drives() {
    if (TensorStore* const store = memory->store()) store->abandon();
  }
  /// Requires: the parameter has elements (std::bad_optional_access).
  TensorId tensor_of(ParamId param) const { return place_of.at(param).value(); }
  /// The unit with the most bytes of payload chunks.
  LargestUnit largest_unit() const;
  /// True on a GPU, unless the options set the chunks' part of the device: the first step measures the room that chunks
  /// may take.
  bool measures() const { return memory->on_gpu() && options.placement_policy != PlacementPolicy::constant; }
  /// Of the device's budget, what is left to the allocator of the model's tensors beside `non_model_bytes` of these.
  std::uint64_t slack_bytes(std::uint64_t non_model_bytes) const;
  void log(std::uint32_t level, const std::string& sentence) const { host.log(level, sentence.c_str()); }
  /// Records in the timeline the bytes that the tiers hold now.
  void sample() {
    timeline.sample({watch.held_bytes(), memory->host_budget().used_bytes(), memory->nvme_budget().used_bytes()});
  }

  ModelHost& host;
  const Machine machine;
  EngineOptions options;
  const ModelShape model;
  std::unique_ptr<EngineMemory> memory;
  const TeamSize team_size;
  DeviceWatch watch;
  Timeline timeline;
  StepRecorder calls;

  ChunkLayout layout;                                        ///< parameters in the order of their first use
  IndexedVector<ParamId, std::optional<TensorId>> place_of;  ///< empty parameters are no tensor of the layout
  IndexedVector<RegisteredId, TensorId> registration_order;
  SlotSizes slots;  ///< of chunks that may be on the device

  std::unique_ptr<Stream> compute, up, down;
  std::unique_ptr<StreamSpans> computed;  ///< of compute
  std::unique_ptr<HostTeam> team;         ///< updates on the host
  std::unique_ptr<Bindings> bindings;
  std::unique_ptr<ChunkManager> chunks;
  std::unique_ptr<StatefulTensorMgr> mover;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<OffloadOptimizer> optimizer;
  std::unique_ptr<ActivationStore> activations;
  /// The payload chunks that each unit uses, and its needs of them on the device.
  IndexedVector<UnitId, std::vector<PayloadId>> used;
  IndexedVector<UnitId, std::vector<Need>> needs;

  /// These use the members above until they are destroyed.
  std::unique_ptr<Planner> planner;
  std::unique_ptr<Planner> pinner;  ///< takes host memory for speculative updates; null where they take it themselves

  bool warming_up = true;     ///< no iteration has been recorded yet
  double update_seconds = 0;  ///< spent in begin_step() so far

 private:
  EngineRooms(ModelHost& host, const EngineOptions& options, const Machine& machine, ModelShape model,
              std::unique_ptr<EngineMemory> memory);
  Result<void> build();
  Result<void> make_lanes();
  Result<std::unique_ptr<OffloadOptimizer>> make_optimizer();
  void lay_out();
  void make_movers();
  void find_uses();
  bool interrupted() const { return host.interrupted() != 0; }
};

}  // namespace castor
