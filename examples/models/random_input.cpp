// SPDX-License-Identifier: Apache-2.0
#include "random_input.h"

#include <castor/plugins/torch/random.h>

#include <ATen/ATen.h>

namespace castor {

at::Tensor random_ids(at::IntArrayRef sizes, std::int64_t below, std::uint64_t seed, std::uint32_t stream,
                      c10::Device device) {
  const at::Tensor ids = at::empty(sizes, at::kLong);
  std::int64_t* values = ids.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    const std::uint64_t word = random_words({seed, stream}, static_cast<std::uint64_t>(i / 2))[i % 2];
    values[i] = static_cast<std::int64_t>(word % static_cast<std::uint64_t>(below));
  }
  return ids.to(device);
}

Batch random_text(std::int64_t n_samples, std::int64_t seq, std::int64_t vocab, std::uint64_t seed,
                  c10::Device device) {
  const at::Tensor text = random_ids({n_samples, seq + 1}, vocab, seed, 0, device);
  return {text.narrow(1, 0, seq).contiguous(), text.narrow(1, 1, seq).contiguous()};
}

at::Tensor random_values(at::IntArrayRef sizes, std::uint64_t seed, std::uint32_t stream,
                         const at::TensorOptions& options) {
  const at::Tensor values = at::empty(sizes, at::kFloat);
  fill({values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())}, Init::normal(1), {seed, stream});
  return values.to(options);
}

}  // namespace castor
