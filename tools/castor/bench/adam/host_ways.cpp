// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/host_ways.h"

#include <algorithm>
#include <array>

#include <castor/memory/bytes.h>

#include "bench/adam/bare_mix.h"
#include "bench/adam/cases.h"
#include "bench/adam/options.h"

namespace castor::bench {
namespace {

/// Prefetch distances that the bare loop tries, in elements.
constexpr std::array<std::uint64_t, 3> kAhead = {0, 256, 1024};
/// Size of the parts that threads of the bare loop take in turn; an equal part for each thread is tried as well.
constexpr std::uint64_t kPartElements = std::uint64_t{64} << 10;

AdamCoefficients coefficients() { return adam_coefficients({.lr = 1e-4, .weight_decay = 0.1}, 10, 1); }

/// `n` elements cut into parts of `part_elements`, a multiple of the grain; the last may be smaller.
struct Cut {
  std::uint64_t n, part_elements;
  std::uint64_t n_parts() const { return (n + part_elements - 1) / part_elements; }
  UpdateArrays part(const UpdateArrays& arrays, std::uint64_t i) const {
    const std::uint64_t first = i * part_elements;
    return arrays.part(first, std::min(part_elements, n - first));
  }
};

std::uint64_t equal_part(std::uint64_t n, unsigned n_threads) {
  return align_up((n + n_threads - 1) / n_threads, kElementGrain);
}

std::string bare_name(std::uint64_t part_elements, bool equal, std::uint64_t ahead) {
  return "bare loop, " + (equal ? "equal parts" : "parts of " + exact_count(part_elements)) +
         (ahead == 0 ? "" : ", " + std::to_string(ahead) + " ahead");
}

}  // namespace

Result<std::unique_ptr<HostWays>> HostWays::make(std::uint64_t n_elements, unsigned n_most_threads) {
  std::unique_ptr<HostWays> ways(new HostWays);
  CASTOR_ASSIGN(Team* const team, ways->team(n_most_threads));
  CASTOR_ASSIGN(ways->memory_, AdamMemory::make(n_elements, *team));
  return ways;
}

Result<Team*> HostWays::team(unsigned n_threads) {
  auto& team = teams_[n_threads];
  if (!team) {
    CASTOR_ASSIGN(team, Team::hire(n_threads));
  }
  return team.get();
}

Result<Way> HostWays::update(unsigned n_threads, std::uint64_t first, std::uint64_t n) {
  auto& kernel = kernels_[n_threads];
  if (!kernel) {
    CASTOR_ASSIGN(kernel, make_host_adam(n_threads));
  }
  const UpdateArrays arrays = memory_->arrays().part(first, n);
  return Way{"castor", [this, arrays, kernel = kernel.get()]() -> Result<std::uint64_t> {
               CASTOR_TRY(kernel->update(*stream_, coefficients(), arrays));
               return kBytesPerElement * arrays.n;
             }};
}

Result<Way> HostWays::update_in_parts(unsigned n_threads, std::uint64_t part_elements) {
  CASTOR_ASSIGN(Team* const team, this->team(n_threads));
  const Cut cut{n_elements(), part_elements};
  return Way{"castor in parts", [this, team, cut]() -> Result<std::uint64_t> {
               const AdamCoefficients c = coefficients();
               CASTOR_TRY(team->run(cut.n_parts(), [&](std::uint64_t i) {
                 return loop_->update(*stream_, c, cut.part(memory_->arrays(), i));
               }));
               return kBytesPerElement * cut.n;
             }};
}

Result<std::vector<Way>> HostWays::bare(unsigned n_threads, std::uint64_t first, std::uint64_t n) {
  CASTOR_ASSIGN(Team* const team, this->team(n_threads));
  const UpdateArrays arrays = memory_->arrays().part(first, n);
  std::vector<Way> ways;
  for (const bool equal : {true, false})
    for (const std::uint64_t ahead : kAhead) {
      const Cut cut{n, equal ? equal_part(n, n_threads) : kPartElements};
      ways.push_back({bare_name(cut.part_elements, equal, ahead), [=]() -> Result<std::uint64_t> {
                        CASTOR_TRY(team->run(cut.n_parts(), [&](std::uint64_t i) -> Result<void> {
                          move_bare(cut.part(arrays, i), ahead);
                          return {};
                        }));
                        return kBytesPerElement * cut.n;
                      }});
    }
  return ways;
}

Result<Way> HostWays::torch(unsigned n_threads, bool with_casts) {
  if (!torch_) {
    CASTOR_ASSIGN(torch_, make_torch_adam(memory_->arrays(), memory_->wide_grad()));
  }
  return Way{with_casts ? "torch's fused AdamW and casts" : "torch's fused AdamW",
             [this, n_threads, with_casts]() -> Result<std::uint64_t> {
               with_casts ? torch_->update_with_casts(n_threads) : torch_->update(n_threads);
               return kBytesPerElement * n_elements();
             }};
}

}  // namespace castor::bench
