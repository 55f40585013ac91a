// SPDX-License-Identifier: Apache-2.0
// Models given as lists of parameters and units, as front ends without LibTorch's modules give them.
#include <castor/plugins/torch/session.h>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../support/scratch_folder.h"

namespace castor::testing {
namespace {

using namespace literals;

constexpr std::int64_t kSize = 16;
constexpr std::size_t kLayers = 3;

/// x → tanh(W₂ tanh(W₁ tanh(W₀ x + b₀) + b₁) + b₂ + b₀): the last layer reads the first one's bias too.
struct ListedNet {
  ListedNet() {
    for (std::size_t i = 0; i < kLayers; ++i) {
      const auto seed = static_cast<double>(i) + 1;
      add("w" + std::to_string(i), at::linspace(-seed, seed, kSize * kSize).sin().reshape({kSize, kSize}) / 4);
      add("b" + std::to_string(i), at::linspace(-1, seed, kSize));
      parts.units.push_back({"layer" + std::to_string(i), {2 * i, 2 * i + 1}});
    }
    parts.units.back().params.push_back(1);
  }
  void add(const std::string& name, const at::Tensor& values) {
    parts.params.emplace_back(name, values.to(at::kBFloat16).requires_grad_());
  }
  const at::Tensor& param(std::size_t id) const { return parts.params[id].second; }

  at::Tensor loss(const Session& session, const at::Tensor& x) const {
    at::Tensor y = x;
    for (std::size_t i = 0; i < kLayers; ++i) {
      const auto scope = session.unit(i).enter();
      if (scope) scope->add_input(y);
      y = at::linear(y, param(2 * i), param(2 * i + 1));
      if (i + 1 == kLayers) y = y + param(1);
      y = y.tanh();
      if (scope) scope->add_output(y), scope->close();
    }
    return y.to(at::kFloat).square().mean();
  }

  ModelParts parts;
};

struct Trained {
  std::string digest;
  std::vector<double> losses;
};

Trained train(const StrategyChoice& choice) {
  const ListedNet net;
  Session session = boost(net.parts, choice, AdamW{.lr = 0.01}).value();
  Trained trained;
  for (int step = 0; step < 4; ++step) {
    const at::Tensor x = at::linspace(-1, 0.1 * step, 5 * kSize).reshape({5, kSize}).to(at::kBFloat16);
    const at::Tensor loss = net.loss(session, x);
    trained.losses.push_back(loss.item<double>());
    session.backward(loss).value();
    (void)session.step().value();
  }
  trained.digest = session.digest().value();
  return trained;
}

TEST(ModelParts, TrainWithTheBitsOfTheResidentRunUnderEveryBudget) {
  const test::ScratchFolder folder;
  const Trained resident = train(castor::Resident{});
  EXPECT_LT(resident.losses.back(), resident.losses.front());
  for (const std::uint64_t device_budget : {3_KiB, 64_KiB}) {
    const Trained moved = train(Gemini{.device_budget = device_budget,
                                       .host_budget = 64_KiB,
                                       .nvme = {folder.path()},
                                       .set = {{"chunk_bytes", "1KiB"}}});
    EXPECT_EQ(moved.digest, resident.digest);
    EXPECT_EQ(moved.losses, resident.losses);
  }
}

std::string refusal(const ModelParts& parts) {
  const auto session = boost(parts, castor::Resident{}, AdamW{});
  return session.ok() ? "" : session.error().message;
}

TEST(ModelParts, ThatContradictEachOtherAreRefused) {
  EXPECT_EQ(refusal({}), "the model has no parameters to train");
  ListedNet left_out, twice, beyond;
  left_out.parts.units[1].params.pop_back();
  EXPECT_EQ(refusal(left_out.parts), "parameter b1 is in no unit; name it in the unit that reads it");
  twice.parts.params.emplace_back("tied", twice.param(0));
  EXPECT_EQ(refusal(twice.parts), "parameter tied is the tensor of w0; give it once");
  beyond.parts.units[0].params.push_back(6);
  EXPECT_EQ(refusal(beyond.parts), "unit layer0 reads parameter 6 of a model of 6");
}

}  // namespace
}  // namespace castor::testing
