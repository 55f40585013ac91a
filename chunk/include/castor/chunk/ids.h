// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/index.h>

namespace castor {

/// A chunk of a ChunkManager, in the order of its registrations.
enum class ChunkId : std::uint32_t {};

/// A parameter of the model, as the host numbers them.
enum class ParamId : std::uint32_t {};

/// A unit of the model, as the host numbers them.
enum class UnitId : std::uint32_t {};

/// A tensor of a ChunkLayout, in the order in which tensors are laid out: that of their first use.
enum class TensorId : std::uint32_t {};

/// A payload chunk of a ChunkLayout. It has one ChunkId for its weights, others for its states and its gradients.
enum class PayloadId : std::uint32_t {};

/// A tile of a payload chunk (ChunkShape::tile), in the order of offsets.
enum class TileId : std::uint32_t {};

}  // namespace castor
