// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace castor {

/// Element types that chunks hold. The 16-bit types are stored as their bit patterns (std::uint16_t). `u8` are the bytes
/// of frozen parameters of any other dtype: they are moved, and nothing is computed with them.
enum class DType : std::uint8_t { f32, bf16, f16, u8 };

/// Bytes of one element.
constexpr std::size_t size_bytes(DType dtype) { return dtype == DType::f32 ? 4 : dtype == DType::u8 ? 1 : 2; }

/// `fp32`, `bf16` or `fp16`, as --precision spells them, or `bytes`.
const char* name(DType dtype);

}  // namespace castor
