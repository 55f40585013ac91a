// SPDX-License-Identifier: Apache-2.0
#include <castor/models/model.h>
#include <castor/plugins/torch/torch_adapter.h>
#include "poisoning_strategy.h"

#include <gtest/gtest.h>

namespace castor::testing {
namespace {

std::shared_ptr<Model> model_of(const char* name, const ModelOptions& options = {}) {
  auto made = make_model(name, options);
  if (!made.ok()) ADD_FAILURE() << made.error().message;
  return std::move(made).value();
}

std::int64_t n_parameters(const char* name, const ModelOptions& options = {}) {
  std::int64_t n = 0;
  for (const at::Tensor& parameter : model_of(name, options)->parameters()) n += parameter.numel();
  return n;
}

// GPT-2's published counts (124,439,808, 354,823,168, 774,030,080 and 1,557,611,200 with a vocabulary of 50257), and
// those with 47 more rows of the embedding.
TEST(MakeModel, Gpt2HasItsPublishedCounts) {
  EXPECT_EQ(n_parameters("gpt:layers=12,hidden=768,heads=12,vocab=50257,tied=1,seq=1024"), 124'439'808);
  EXPECT_EQ(n_parameters("gpt2-124m"), 124'475'904);
  EXPECT_EQ(n_parameters("gpt2-355m"), 354'823'168 + 47 * 1024);
  EXPECT_EQ(n_parameters("gpt2-774m"), 774'030'080 + 47 * 1280);
  EXPECT_EQ(n_parameters("gpt2-1.5b"), 1'557'611'200 + 47 * 1600);
}

// The shape that the peers were measured with.
TEST(MakeModel, AnUntiedHeadHasNoBias) {
  EXPECT_EQ(n_parameters("gpt:layers=48,hidden=1600,heads=25,vocab=50304,tied=0,seq=1024"), 1'638'172'800);
}

// torchvision's vit_b_16, vit_l_16 and vit_h_14.
TEST(MakeModel, VitHasItsPublishedCounts) {
  EXPECT_EQ(n_parameters("vit-b"), 86'567'656);
  EXPECT_EQ(n_parameters("vit-l"), 304'326'632);
  EXPECT_EQ(n_parameters("vit-h"), 632'045'800);
}

// The counts of the published weights.
TEST(MakeModel, LlamaAndMixtralHaveTheirPublishedCounts) {
  EXPECT_EQ(n_parameters("llama2-7b"), 6'738'415'616);
  EXPECT_EQ(n_parameters("llama2-13b"), 13'015'864'320);
  EXPECT_EQ(n_parameters("llama2-70b"), 68'976'648'192);
  EXPECT_EQ(n_parameters("llama3-8b"), 8'030'261'248);
  EXPECT_EQ(n_parameters("llama3-70b"), 70'553'706'496);
  EXPECT_EQ(n_parameters("mixtral-8x7b"), 46'702'792'704);
}

TEST(MakeModel, MlpIsCountedByHand) {
  EXPECT_EQ(n_parameters("mlp"), 3 * (512 * 512 + 512) + 512 * 10 + 10);
  EXPECT_EQ(n_parameters("mlp:layers=2,hidden=8"), 2 * (8 * 8 + 8) + 8 * 10 + 10);
  EXPECT_EQ(n_parameters("mlp:layers=2,hidden=8,features=3,classes=5"), (3 * 8 + 8) + (8 * 8 + 8) + 8 * 5 + 5);
}

TEST(MakeModel, ASpelledOutGptHasAPositionPerTokenOfASample) {
  ModelOptions options;
  options.seq = 32;
  const std::int64_t blocks = 12 * 8 * 8 + 13 * 8, norm = 16;
  EXPECT_EQ(n_parameters("gpt:layers=1,hidden=8,heads=2,vocab=10", options), blocks + norm + 10 * 8 + 32 * 8);
  EXPECT_EQ(n_parameters("gpt:layers=1,hidden=8,heads=2,vocab=10,seq=64", options), blocks + norm + 10 * 8 + 64 * 8);
}

TEST(MakeModel, NamesAndShapesAreThoseOfTheModules) {
  const auto model = model_of("gpt:layers=2,hidden=8,heads=2,vocab=10,tied=0");
  const auto parameters = model->named_parameters();
  ASSERT_EQ(parameters.size(), 2u + 2 * 12 + 2 + 1);
  EXPECT_EQ(parameters[0].key(), "tokens.weight");
  EXPECT_EQ(parameters[1].key(), "positions.weight");
  EXPECT_EQ(parameters[4].key(), "blocks.0.qkv.weight");
  EXPECT_EQ(parameters[4].value().sizes(), (std::vector<std::int64_t>{24, 8}));
  EXPECT_EQ(parameters[28].key(), "head.weight");
  EXPECT_EQ(parameters[28].value().sizes(), (std::vector<std::int64_t>{10, 8}));
}

TEST(MakeModel, ATiedHeadUsesTheEmbeddingsParameter) {
  const auto model = model_of("gpt:layers=1,hidden=8,heads=2,vocab=10,tied=1");
  const auto adapter = TorchAdapter::make(model, c10::kCPU).value();
  ModelHost& host = adapter->host();
  const std::uint32_t last = host.n_units() - 1;
  const castor_unit_info unit = host.unit_info(last).value();
  EXPECT_STREQ(unit.name, "head");
  EXPECT_EQ(params_of(host, last), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(params_of(host, 0), (std::vector<std::uint32_t>{0}));
}

// Radford et al. 2019, section 2.3: residual projections are initialised smaller by 1/sqrt(number of residual layers),
// two per block.
TEST(MakeModel, ResidualProjectionsBeginSmaller) {
  const auto model = model_of("gpt:layers=8,hidden=64,heads=2,vocab=10");
  const auto adapter = TorchAdapter::make(model, c10::kCPU).value();
  ModelHost& host = adapter->host();
  const auto stddev = [&](std::uint32_t param) {
    return initial_values(host, param, c10::kCPU).to(at::kDouble).std().item<double>();
  };
  const auto names = model->named_parameters();
  ASSERT_EQ(names[4].key(), "blocks.0.qkv.weight");
  ASSERT_EQ(names[6].key(), "blocks.0.out.weight");
  ASSERT_EQ(names[12].key(), "blocks.0.down.weight");
  EXPECT_NEAR(stddev(4), 0.02, 0.0006);
  EXPECT_NEAR(stddev(6), 0.005, 0.0003);
  EXPECT_NEAR(stddev(12), 0.005, 0.0002);
}

TEST(MakeModel, ModelsOfTextReadText) {
  EXPECT_TRUE(model_of("gpt2-124m")->reads_text());
  EXPECT_EQ(model_of("gpt2-124m")->vocabulary(), 50304);
  EXPECT_TRUE(model_of("mixtral:layers=1,hidden=8,heads=2,kv_heads=1,ffn=8,vocab=10")->reads_text());
  EXPECT_FALSE(model_of("vit-b")->reads_text());
  EXPECT_FALSE(model_of("mlp")->reads_text());
}

TEST(MakeModel, RandomBatchesDependOnTheSeedAlone) {
  ModelOptions options;
  options.seq = 16;
  const auto model = model_of("gpt:layers=1,hidden=8,heads=2,vocab=10", options);
  const Batch a = model->random_batch(3, 1), b = model->random_batch(3, 1), c = model->random_batch(3, 2);
  EXPECT_EQ(a.input.sizes(), (std::vector<std::int64_t>{3, 16}));
  EXPECT_TRUE(at::equal(a.input, b.input));
  EXPECT_FALSE(at::equal(a.input, c.input));
  EXPECT_TRUE(at::equal(a.input.narrow(1, 1, 15), a.target.narrow(1, 0, 15)));
  EXPECT_GE(a.input.min().item<std::int64_t>(), 0);
  EXPECT_LT(a.input.max().item<std::int64_t>(), 10);
}

struct Refusal {
  const char* name;
  const char* says;
};

TEST(MakeModel, RefusesWhatItDoesNotUnderstand) {
  for (const Refusal& refusal :
       {Refusal{"gpt3", "there is no model `gpt3`"}, Refusal{"", "there is no model ``"},
        Refusal{"gpt:layer=3", "`layer=3` was not understood"}, Refusal{"gpt:layers", "`layers` was not understood"},
        Refusal{"gpt:layers=x", "layers=x is not a whole number"},
        Refusal{"gpt:layers=0", "layers=0 is not a whole number from 1"},
        Refusal{"gpt:tied=2", "tied=2 is not a whole number from 0 to 1"},
        Refusal{"gpt:hidden=10,heads=3", "hidden size 10 is not a multiple of heads 3"},
        Refusal{"vit:patch=15", "image size 224 is not a multiple of patch 15"},
        Refusal{"gpt:seq=64", "a sample of 128 tokens was asked for, the model has positions for 1 to 64"}}) {
    const auto made = make_model(refusal.name, {});
    ASSERT_FALSE(made.ok()) << refusal.name;
    EXPECT_EQ(made.error().kind, ErrorKind::usage);
    EXPECT_NE(made.error().message.find(refusal.says), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace castor::testing
