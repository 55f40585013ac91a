// SPDX-License-Identifier: Apache-2.0
// Steps of models on the meta device against operations and bytes worked out by hand.
#include <castor/plugins/torch/record_step.h>

#include <castor/models/model.h>
#include <castor/plugins/torch/on_meta.h>
#include <castor/plugins/torch/unit.h>

#include <gtest/gtest.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <string>

namespace castor {
namespace {

struct Recorded {
  RecordedStep step;

  /// `f0 ef0 …`, with the numbers of units, parameters or activations.
  std::string calls() const {
    constexpr const char* kNames[] = {"f", "b", "ef", "eb", "g", "keep", "recall", "forget", "announce", "end"};
    std::string text;
    for (const RecordedCall& call : step.calls) {
      const auto kind = call.call.kind;
      text += kNames[static_cast<int>(kind)];
      if (kind != StepCall::Kind::announce && kind != StepCall::Kind::end_of_backward)
        text += std::to_string(call.call.id);
      text += ' ';
    }
    return text;
  }

  /// The sum over all calls of `kind` for `id`.
  double flops(StepCall::Kind kind, std::uint32_t id) const {
    double sum = 0;
    for (const RecordedCall& call : step.calls)
      if (call.call.kind == kind && call.call.id == id) sum += call.flops;
    return sum;
  }
  std::uint64_t peak_bytes(StepCall::Kind kind, std::uint32_t id) const {
    for (const RecordedCall& call : step.calls)
      if (call.call.kind == kind && call.call.id == id) return call.peak_bytes;
    return 0;
  }
};

Recorded record(const std::string& name, std::int64_t batch, ModelOptions options, bool keeps_inputs = false) {
  options.device = c10::kMeta;
  const auto model = make_model(name, options).value();
  const Batch data = model->random_batch(batch, 1);
  return {record_step(model, [&] { return model->loss(data); }, {.is_unit = nullptr, .keeps_inputs = keeps_inputs})
              .value()};
}

constexpr std::uint64_t kKiB = 1024;

TEST(RecordStep, AnMlpTakesTheOperationsAndTheBytesOfItsLayers) {
  const Recorded mlp = record("mlp:layers=1,hidden=1024,features=512,classes=256", 256, {});
  EXPECT_EQ(mlp.calls(), "f0 ef0 f1 ef1 announce b1 g3 g2 eb1 b0 g1 g0 end ");
  constexpr double kFirst = 2.0 * 256 * 512 * 1024, kHead = 2.0 * 256 * 1024 * 256;
  EXPECT_EQ(mlp.flops(StepCall::Kind::forward, 0), kFirst);
  EXPECT_EQ(mlp.flops(StepCall::Kind::forward, 1), kHead);
  EXPECT_EQ(mlp.step.flops(), kFirst + kHead + kFirst + 2 * kHead) << "the data need no gradient";
  EXPECT_EQ(mlp.peak_bytes(StepCall::Kind::forward, 0), 512 * kKiB) << "x·W of 256 × 1024";
  EXPECT_EQ(mlp.peak_bytes(StepCall::Kind::end_forward, 0), 1024 * kKiB) << "and its relu";
  EXPECT_EQ(mlp.peak_bytes(StepCall::Kind::forward, 1), 512 * kKiB + 128 * kKiB) << "the relu and the logits";
}

TEST(RecordStep, AGptTakesTwoOperationsPerWeightAndTokenAndFourPerPairOfPositions) {
  const Recorded gpt = record("gpt:layers=1,hidden=64,heads=4,vocab=512,tied=1", 2, {.seq = 32});
  EXPECT_EQ(gpt.calls(),
            "f0 ef0 f1 ef1 f2 ef2 f3 ef3 f4 ef4 f5 ef5 f6 ef6 f7 ef7 f8 ef8 f9 ef9 announce "
            "b9 eb9 b8 g14 g15 eb8 b7 g13 g12 eb7 b6 g11 g10 eb6 b5 g8 g9 eb5 b4 g7 g6 eb4 b3 g5 g4 eb3 b2 g2 g3 eb2 "
            "b1 g1 eb1 b0 g0 end ");
  constexpr double kTokens = 2 * 32, kQkv = 2 * 64 * 192 * kTokens, kOut = 2 * 64 * 64 * kTokens,
                   kFeedForward = 2 * 64 * 256 * kTokens, kHead = 2 * 64 * 512 * kTokens,
                   kAttention = 4.0 * 32 * 32 * 64 * 2 / 2;
  EXPECT_EQ(gpt.flops(StepCall::Kind::forward, 0), 0) << "a look-up";
  EXPECT_EQ(gpt.flops(StepCall::Kind::forward, 3), kQkv);
  EXPECT_EQ(gpt.flops(StepCall::Kind::end_forward, 3), kAttention) << "half of the pairs: it is causal";
  EXPECT_EQ(gpt.flops(StepCall::Kind::forward, 6), kFeedForward);
  EXPECT_EQ(gpt.flops(StepCall::Kind::forward, 9), kHead);
  EXPECT_EQ(gpt.step.flops(), 3 * (kQkv + kOut + 2 * kFeedForward + kHead) + 3.5 * kAttention);
}

TEST(RecordStep, ARecomputedBlockRunsForwardAgainAndKeepsItsInput) {
  const Recorded gpt = record("gpt:layers=1,hidden=64,heads=4,vocab=512,tied=0", 2, {.recompute = true, .seq = 32},
                              /*keeps_inputs=*/true);
  EXPECT_EQ(gpt.calls(),
            "f0 ef0 f1 ef1 keep0 f2 ef2 f3 ef3 f4 ef4 f5 ef5 f6 ef6 f7 ef7 f8 ef8 f9 ef9 announce "
            "b9 g16 eb9 b8 g14 g15 eb8 recall0 f2 ef2 f3 ef3 f4 ef4 f5 ef5 f6 ef6 f7 ef7 "
            "b7 g13 g12 eb7 b6 g11 g10 eb6 b5 g8 g9 eb5 b4 g7 g6 eb4 b3 g5 g4 eb3 b2 g2 g3 eb2 forget0 "
            "b1 g1 eb1 b0 g0 end ");
  EXPECT_EQ(gpt.step.calls[4].call.n_bytes, 2 * 32 * 64 * 2u);
}

/// Without recomputation a block keeps 34·s·b·h bytes less dropout's masks: equation 1 of Korthikanti et al. 2022.
TEST(RecordStep, ABlockKeepsItsActivationsWithoutScores) {
  constexpr std::uint64_t kTokens = 4 * 256, kHidden = 256;
  const auto at_head = [&](std::int64_t layers) {
    const Recorded gpt =
        record("gpt:layers=" + std::to_string(layers) + ",hidden=256,heads=8,vocab=128,tied=1", 4, {.seq = 256});
    return gpt.peak_bytes(StepCall::Kind::forward, static_cast<std::uint32_t>(3 + 6 * layers));
  };
  const std::uint64_t block_bytes = (at_head(5) - at_head(2)) / 3;
  constexpr std::uint64_t kPerRow = 2 * 2 * 4 + 8 * 4;  // mean and deviation of two norms, and a sum for each head
  constexpr std::uint64_t kRandomState = 2 * 512;       // of attention
  EXPECT_EQ(block_bytes, 32 * kTokens * kHidden + kTokens * kPerRow + kRandomState);
}

TEST(RecordStep, GroupedQueriesShareTheirKeysAndExpertsTheirTokens) {
  constexpr double kTokens = 2 * 32, kSquare = 2 * 64 * 64 * kTokens, kAttention = 4.0 * 32 * 32 * 64 * 2 / 2,
                   kHead = 2 * 64 * 128 * kTokens, kExpert = 2 * 64 * 96 * kTokens;
  const Recorded llama = record("llama:layers=1,hidden=64,heads=4,kv_heads=2,ffn=96,vocab=128", 2, {.seq = 32});
  EXPECT_EQ(llama.step.flops(), 3 * (2 * kSquare + 2 * kSquare / 2 + 3 * kExpert + kHead) + 3.5 * kAttention);
  const Recorded mixtral =
      record("mixtral:layers=1,hidden=64,heads=4,kv_heads=2,ffn=96,vocab=128,experts=4", 2, {.seq = 32});
  constexpr double kRouter = 2 * 64 * 4 * kTokens, kTaken = 2;
  EXPECT_EQ(mixtral.step.flops(),
            3 * (2 * kSquare + 2 * kSquare / 2 + kRouter + kTaken * 3 * kExpert + kHead) + 3.5 * kAttention);
}

/// Convolutions with a stride, groups and a dilation, and one the other way.
struct Convolutions final : torch::nn::Module {
  at::Tensor loss() {
    const at::Tensor x = at::zeros({2, 3, 16, 16});
    const at::Tensor y = at::relu(norm->forward(first->forward(x)));
    return last->forward(grouped->forward(at::max_pool2d(y, 2))).mean();
  }
  template <typename M, typename... Args>
  std::shared_ptr<Unit<M>> add(const char* name, Args&&... args) {
    return register_module(name, std::make_shared<Unit<M>>(std::forward<Args>(args)...));
  }
  std::shared_ptr<Unit<torch::nn::Conv2dImpl>> first =
      add<torch::nn::Conv2dImpl>("first", torch::nn::Conv2dOptions(3, 8, 3).padding(1));
  std::shared_ptr<Unit<torch::nn::BatchNorm2dImpl>> norm = add<torch::nn::BatchNorm2dImpl>("norm", 8);
  std::shared_ptr<Unit<torch::nn::Conv2dImpl>> grouped = add<torch::nn::Conv2dImpl>(
      "grouped", torch::nn::Conv2dOptions(8, 16, 3).padding(2).stride(2).dilation(2).groups(4));
  std::shared_ptr<Unit<torch::nn::ConvTranspose2dImpl>> last =
      add<torch::nn::ConvTranspose2dImpl>("last", torch::nn::ConvTranspose2dOptions(16, 4, 2).stride(2));
};

TEST(RecordStep, ConvolutionsCountTheirOperations) {
  const OnMeta meta;
  const auto model = std::make_shared<Convolutions>();
  const auto step = record_step(model, [&] { return model->loss(); });
  ASSERT_TRUE(step.ok()) << step.error().message;
  // Two operations for each element of the result and weight of one channel. Backward has two such products, but the
  // gradient of the batch is not wanted.
  constexpr double kFirst = 2.0 * (2 * 8 * 16 * 16) * (3 * 3 * 3), kGrouped = 2.0 * (2 * 16 * 4 * 4) * (2 * 3 * 3);
  constexpr double kLast = 2.0 * (2 * 16 * 4 * 4) * (4 * 2 * 2);  // one for each element of its input
  EXPECT_EQ(step->flops(), 2 * kFirst + 3 * kGrouped + 3 * kLast);
}

TEST(RecordStep, ParametersAndTensorsAreOnTheMetaDeviceWhileThereIsAGuard) {
  {
    const OnMeta meta;
    const auto model = make_model("mlp:layers=2,hidden=8", {DType::bf16, c10::kCPU}).value();
    for (const at::Tensor& parameter : model->parameters()) EXPECT_TRUE(parameter.is_meta());
    EXPECT_TRUE(at::ones({2}, at::TensorOptions(c10::kCPU)).is_meta());
  }
  EXPECT_FALSE(at::ones({2}).is_meta());
}

TEST(RecordStep, AModelWithMemoryIsRefused) {
  const auto model = make_model("mlp", {}).value();
  const auto refused = record_step(model, [] { return at::Tensor(); });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "parameter layer0.weight is on cpu; a step is recorded on the meta device: build the model there");
}

TEST(RecordStep, AParameterOfAnotherDtypeIsRefusedByName) {
  struct Wide : torch::nn::Module {
    Wide() { register_parameter("weight", at::empty({4, 2}, at::TensorOptions(c10::kMeta).dtype(at::kDouble))); }
    at::Tensor forward(const at::Tensor& x) { return x; }
  };
  const auto model = std::make_shared<Unit<Wide>>();
  const auto refused = record_step(model, [] { return at::Tensor(); });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "parameter weight is Double; parameters that are trained are fp32, fp16 or bf16: "
            "cast the model before, as with model.float()");
}

}  // namespace
}  // namespace castor
