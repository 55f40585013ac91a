// SPDX-License-Identifier: Apache-2.0
// Updates that write beside the arrays that they read, by each rule and with every kind of vectors.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <castor/memory/bytes.h>
#include <castor/rules/update_rule.h>

#include "adam_data.h"
#include "kernel_place.h"
#include "only_target.h"

namespace castor {
namespace {

using testing::AdamData;
using testing::PackedAdam;

struct Case {
  UpdateOptions rule;
  bool split_master = false;
  MomentFormat moments = MomentFormat::f32;
  DType weight = DType::bf16;
  std::uint64_t n = 0;
  std::uint64_t offset = 0;  ///< of each array's start from an address that suits vectors, in elements
};

/// The arrays of an update in one block of memory: first those that are written, then those that are read.
class TwoBlocks {
 public:
  static constexpr std::uint8_t kNever = 0xa5;

  TwoBlocks(const PackedAdam& before, std::uint64_t offset) : shape_(before) {
    for (const std::vector<std::uint8_t>* array : arrays_of(shape_)) {
      first_.push_back(align_up(n_bytes_, 256) + offset * array->size() / std::max<std::uint64_t>(shape_.n, 1));
      n_bytes_ = first_.back() + array->size();
    }
    n_bytes_ = align_up(n_bytes_, 256);
    bytes.assign(2 * n_bytes_, kNever);
    for (std::size_t i = 0; i < first_.size(); ++i) {
      const auto& array = *arrays_of(shape_)[i];
      std::copy(array.begin(), array.end(), bytes.begin() + static_cast<std::ptrdiff_t>(n_bytes_ + first_[i]));
    }
  }

  /// The arrays for a block at `memory` and a gradient at `grad`.
  UpdateArrays arrays(std::byte* memory, const std::byte* grad) {
    UpdateArrays found = shape_.arrays();
    found.master = nullptr;
    if (shape_.split_master)
      found.master_low = reinterpret_cast<std::uint16_t*>(memory + first_[0]);
    else
      found.master = reinterpret_cast<float*>(memory + first_[0]);
    found.exp_avg = memory + first_[1], found.exp_avg_sq = memory + first_[2], found.weight = memory + first_[3];
    found.grad = grad;
    found.old_states = found.old_weight = static_cast<std::ptrdiff_t>(n_bytes_);
    return found;
  }

  PackedAdam written() const { return at(0); }
  PackedAdam read() const { return at(n_bytes_); }

  std::vector<std::uint8_t> bytes;

 private:
  static std::vector<std::vector<std::uint8_t>*> arrays_of(PackedAdam& of) {
    return {&of.master, &of.exp_avg, &of.exp_avg_sq, &of.weight};
  }
  PackedAdam at(std::uint64_t block) const {
    PackedAdam found = shape_;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      auto& array = *arrays_of(found)[i];
      std::memcpy(array.data(), bytes.data() + block + first_[i], array.size());
    }
    return found;
  }

  PackedAdam shape_;
  std::vector<std::uint64_t> first_;  ///< bytes
  std::uint64_t n_bytes_ = 0;
};

class UpdateBeside : public testing::KernelPlace {
 protected:
  void check(const Case& of) {
    std::mt19937_64 random(17);
    const UpdateCoefficients c = update_coefficients(of.rule, {7, RegisteredId{3}, 5}, 0.37 / 1024);
    AdamData wanted = testing::random_data(random, of.n, DType::bf16, of.weight);
    testing::make_exact(wanted, of.moments);
    const PackedAdam before(wanted, of.split_master, of.moments);
    testing::straight_line_update(c, wanted, of.moments);
    TwoBlocks blocks(before, of.offset);
    const Buffer memory = upload(blocks.bytes), grad = upload(before.grad);
    UpdateArrays arrays = blocks.arrays(memory.data(), grad.data());
    if (!keeps_exp_avg_sq(of.rule)) arrays.exp_avg_sq = nullptr;
    UpdateKernels::make(device()).value().update(stream(), c, arrays).value();
    download(memory, blocks.bytes);
    const PackedAdam kept = blocks.read();
    EXPECT_EQ(kept.master, before.master);
    EXPECT_EQ(kept.exp_avg, before.exp_avg);
    EXPECT_EQ(kept.exp_avg_sq, before.exp_avg_sq);
    EXPECT_EQ(kept.weight, before.weight);
    PackedAdam got = blocks.written();
    if (!keeps_exp_avg_sq(of.rule)) {
      EXPECT_EQ(std::count(got.exp_avg_sq.begin(), got.exp_avg_sq.end(), TwoBlocks::kNever),
                static_cast<std::ptrdiff_t>(got.exp_avg_sq.size()));
      got.exp_avg_sq = before.exp_avg_sq;
    }
    testing::expect_same_bits(got.unpacked(), wanted);
  }

  /// The processor's kinds of vectors; a GPU has none.
  std::vector<std::int64_t> targets() const {
    return GetParam() == DeviceKind::cpu ? hwy::SupportedAndGeneratedTargets() : std::vector<std::int64_t>{0};
  }
};
INSTANTIATE_TEST_SUITE_P(On, UpdateBeside, testing::all_places(), testing::place_name);

// Fewer elements than a step of the loop, the most that are written through the caches, the fewest that are written
// past them, and a remainder after whole steps; arrays that start where it suits vectors, a vector further, and within
// one.
TEST_P(UpdateBeside, GivesTheBitsOfTheFormulasAndLeavesWhatItReads) {
  const UpdateOptions rules[] = {AdamOptions{.weight_decay = 0.1}, SgdOptions{.momentum = 0.9, .weight_decay = 0.1},
                                 LambOptions{.weight_decay = 0.1}};
  const std::pair<bool, DType> masters[] = {{true, DType::bf16}, {false, DType::bf16}, {false, DType::f32}};
  for (const std::int64_t target : targets())
    for (const UpdateOptions& rule : rules)
      for (const auto& [split, weight] : masters)
        for (const MomentFormat moments : {MomentFormat::f32, MomentFormat::mixed, MomentFormat::bf16})
          for (const std::uint64_t n : {31u, 4095u, 4096u, 9001u})
            for (const std::uint64_t offset : {0u, 3u, 32u}) {
              if (!keeps_exp_avg_sq(rule) && moments == MomentFormat::bf16) continue;
              SCOPED_TRACE(::testing::Message()
                           << hwy::TargetName(target) << ", rule " << rule.index() << ", split " << split << ", weight "
                           << name(weight) << ", moments " << static_cast<int>(moments) << ", " << n
                           << " elements from " << offset);
              const testing::OnlyTarget only(target);
              check({rule, split, moments, weight, n, offset});
            }
}

}  // namespace
}  // namespace castor
