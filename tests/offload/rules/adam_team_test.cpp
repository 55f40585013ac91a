// SPDX-License-Identifier: Apache-2.0
// The host's Adam by several threads; among the programs that run under TSan.
#include <gtest/gtest.h>

#include <random>

#include <castor/rules/adam.h>

#include "adam_data.h"

namespace castor {
namespace {

using testing::AdamData;

TEST(AdamTeam, GivesTheBitsOfOneThread) {
  std::mt19937_64 random(9);
  const auto device = make_cpu_device();
  const auto stream = device->wrap_compute_stream(nullptr);
  const AdamCoefficients coefficients = adam_coefficients({}, 3, 1);
  for (const unsigned n_threads : {1u, 2u, 3u, 8u}) {
    const auto team = make_host_adam(n_threads).value();
    for (const std::uint64_t n : {0u, 1u, 65536u, 65537u, 131072u, 500001u}) {
      SCOPED_TRACE(::testing::Message() << n << " elements, " << n_threads << " threads");
      AdamData wanted = testing::random_data(random, n, DType::bf16, DType::f16);
      AdamData got = wanted;
      team->update(*stream, coefficients, got.arrays()).value();
      make_host_adam()->update(*stream, coefficients, wanted.arrays()).value();
      testing::expect_same_bits(got, wanted);
    }
  }
}

}  // namespace
}  // namespace castor
