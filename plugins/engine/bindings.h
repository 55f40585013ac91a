// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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
  /// Borrowed. `place_of`: tensor numbers by parameter.
  Bindings(const castor_host_v1& host, const ModelShape& model, const ChunkLayout& layout,
           const std::vector<std::uint32_t>& place_of);

  /// Sets the payload chunks of the layout, by number. Once, before any other call.
  void set_chunks(std::vector<ChunkId> payloads) { payloads_ = std::move(payloads); }

  /// Points the parameters of `unit` at their places in the device slots; parameters without elements at memory of no
  /// use. Errors: those of the host.
  [[nodiscard]] Result<void> bind(std::uint32_t unit, const ChunkManager& chunks);
  /// Unbinds the parameters of chunk `id`, whose slot is about to be freed.
  void released(ChunkId id);
  /// Unbinds the parameters of payload chunk number `i`, whose update is deferred to its next use.
  void outdated(std::uint32_t i);
  void unbind_all();

 private:
  void unbind(std::uint32_t i, const char* reason);
  void unbind_param(std::uint32_t param, const char* reason);

  const castor_host_v1& host_;
  const ModelShape& model_;
  const ChunkLayout& layout_;
  const std::vector<std::uint32_t>& place_of_;
  std::vector<ChunkId> payloads_;
  std::vector<bool> bound_;  ///< by parameter
  alignas(512) std::array<std::byte, 512> no_elements_ = {};  ///< parameters without elements point here
};

}  // namespace castor
