// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/adam_memory.h"

#include <castor/memory/bytes.h>
#include <castor/memory/host_memory.h>

#include "bench/adam/options.h"

namespace castor::bench {
namespace {

float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }
std::uint16_t* halves(const Buffer& buffer) { return reinterpret_cast<std::uint16_t*>(buffer.data()); }

Result<void> check_room(std::uint64_t n_elements) {
  const std::uint64_t free_bytes = available_host_memory_bytes(), n_bytes = kMemoryPerElement * n_elements;
  if (free_bytes == 0 || n_bytes <= free_bytes) return {};
  return Error{ErrorKind::does_not_fit, "--elements " + std::to_string(n_elements) + " takes " + format_bytes(n_bytes) +
                                            " of memory, " + format_bytes(free_bytes) + " are free; lower it"};
}

}  // namespace

Result<std::unique_ptr<AdamMemory>> AdamMemory::make(std::uint64_t n_elements, Team& team) {
  CASTOR_TRY(check_room(n_elements));
  std::unique_ptr<AdamMemory> memory(new AdamMemory);
  memory->n_elements_ = n_elements;
  for (Buffer* buffer : {&memory->master_, &memory->exp_avg_, &memory->exp_avg_sq_, &memory->wide_grad_}) {
    CASTOR_ASSIGN(*buffer, Buffer::allocate(memory->pages_, 4 * n_elements));
  }
  for (Buffer* buffer : {&memory->grad_, &memory->weight_}) {
    CASTOR_ASSIGN(*buffer, Buffer::allocate(memory->pages_, 2 * n_elements));
  }
  const std::uint64_t n_grains = n_elements / kElementGrain, n_parts = team.n_threads();
  CASTOR_TRY(team.run(n_parts, [&](std::uint64_t part) -> Result<void> {
    memory->fill(part * n_grains / n_parts * kElementGrain, (part + 1) * n_grains / n_parts * kElementGrain);
    return {};
  }));
  return memory;
}

UpdateArrays AdamMemory::arrays() const {
  return {floats(master_), floats(exp_avg_), floats(exp_avg_sq_), grad_.data(),
          weight_.data(),  DType::bf16,      DType::bf16,         n_elements_};
}

/// Masters of about 0.02 and gradients of about 1e-3, so that no operation meets a subnormal, an infinity or a NaN.
void AdamMemory::fill(std::uint64_t first, std::uint64_t end) {
  for (std::uint64_t i = first; i < end; ++i) {
    const float varied = 1 + 0x1p-10f * static_cast<float>(i % 1024), sign = i % 3 == 0 ? -1.0f : 1.0f;
    floats(master_)[i] = 0.02f * varied * sign;
    floats(exp_avg_)[i] = 1e-4f * varied;
    floats(exp_avg_sq_)[i] = 1e-6f * varied;
    halves(grad_)[i] = round_to_bf16(1e-3f * varied * sign);
    halves(weight_)[i] = 0;
    floats(wide_grad_)[i] = 1e-3f * varied * sign;
  }
}

}  // namespace castor::bench
