// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include <castor/chunk/chunk_layout.h>
#include <castor/chunk/chunk_manager.h>

#include "model_shape.h"

namespace castor {

/// The parameters of the model that point into device slots. A parameter is bound while its chunk's slot exists and its
/// weights are those of the last step; every access to an unbound one fails with the reason.
///
/// Threads: one at a time.
class Bindings {
 public:
  /// Borrowed. `place_of`: EngineRooms::place_of.
  Bindings(ModelHost& host, const ModelShape& model, const ChunkLayout& layout,
           const IndexedVector<ParamId, std::optional<TensorId>>& place_of);

  /// Sets the chunks of the layout. Once, before any other call.
  void set_chunks(IndexedVector<PayloadId, ChunkId> payloads) { payloads_ = std::move(payloads); }

  /// Points the parameters of `unit` at their places in the device slots; parameters without elements at memory of no
  /// use. Errors: those of the host.
  [[nodiscard]] Result<void> bind(UnitId unit, const ChunkManager& chunks);
  /// The same for one parameter.
  [[nodiscard]] Result<void> bind(ParamId param, const ChunkManager& chunks);
  /// Unbinds the parameters of chunk `id`, whose slot is about to be freed.
  void released(ChunkId id);
  /// Unbinds the parameters of `chunk`, whose update is deferred to its next use.
  void outdated(PayloadId chunk);
  void unbind_all();
  /// Takes the model's own memory from all parameters. Before any of them is bound.
  void unbind_first_values();

 private:
  void unbind(PayloadId chunk, const char* reason);
  void unbind_param(ParamId param, const char* reason);

  ModelHost& host_;
  const ModelShape& model_;
  const ChunkLayout& layout_;
  const IndexedVector<ParamId, std::optional<TensorId>>& place_of_;
  IndexedVector<PayloadId, ChunkId> payloads_;
  IndexedVector<ParamId, bool> bound_;
  alignas(512) std::array<std::byte, 512> no_elements_ = {};  ///< parameters without elements point here
};

}  // namespace castor
