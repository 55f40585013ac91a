// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/models/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace castor {

/// Integers in [0, `below`), the same for the same seed and stream on every machine: int64 of `sizes`, on `device`.
at::Tensor random_ids(at::IntArrayRef sizes, std::int64_t below, std::uint64_t seed, std::uint32_t stream,
                      c10::Device device);

/// A text of random ids, and the same text shifted by one position: int64 [n_samples, seq] each.
Batch random_text(std::int64_t n_samples, std::int64_t seq, std::int64_t vocab, std::uint64_t seed, c10::Device device);

/// Normal values of mean 0 and standard deviation 1, of `sizes`, rounded to the dtype of `options`.
at::Tensor random_values(at::IntArrayRef sizes, std::uint64_t seed, std::uint32_t stream,
                         const at::TensorOptions& options);

}  // namespace castor
