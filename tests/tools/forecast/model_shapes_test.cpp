// SPDX-License-Identifier: Apache-2.0
#include "forecast/shapes/model_shapes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace castor::shapes {
namespace {

// Published parameter counts of the checkpoints. GPT-2's vocabulary has 47 more words here, as padding.
TEST(ModelShapes, HaveAsManyParametersAsTheirCheckpoints) {
  const std::map<std::string, std::uint64_t> published = {
      {"gpt2-124m", 124'439'808},       {"gpt2-355m", 354'823'168},   {"gpt2-774m", 774'030'080},
      {"gpt2-1.5b", 1'557'611'200},     {"llama2-7b", 6'738'415'616}, {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},   {"llama3-8b", 8'030'261'248}, {"llama3-70b", 70'553'706'496},
      {"mixtral-8x7b", 46'702'792'704}, {"vit-b", 86'567'656},        {"vit-l", 304'326'632},
      {"vit-h", 632'045'800},
  };
  for (const auto& [name, n_params] : published) {
    const Model made = model(name).value();
    const std::uint64_t padding = made.classes == 50304 ? 47 * made.hidden : 0;
    EXPECT_EQ(made.n_params(), n_params + padding) << name;
  }
}

TEST(ModelShapes, EveryNameHasUnitsWithParameters) {
  for (const std::string& name : model_names()) {
    const Model made = model(name).value();
    EXPECT_EQ(made.name, name);
    EXPECT_EQ(index(made.first_block) + made.layers * made.units_per_block + 2, made.units.size()) << "norm and head";
    EXPECT_EQ(made.units.back().name, "head");
    for (const Unit& unit : made.units)
      for (const auto numel : unit.numels) EXPECT_GT(numel, 0u) << name << " " << unit.name;
  }
}

TEST(ModelShapes, BlocksKeep32BytesPerTokenAndHiddenElementIn16Bit) {
  // Korthikanti et al. 2022, equation 1: 34, less two dropout masks of a byte each, without attention scores.
  for (const char* name : {"gpt2-1.5b", "vit-l"}) {
    const Model made = model(name).value();
    EXPECT_EQ(2 * made.kept_by_block, 32 * made.hidden);
  }
  EXPECT_EQ(model("llama3-8b").value().kept_by_block, 6 * 4096u + 2 * 1024 + 4 * 14336);
}

TEST(ModelShapes, ATokenTakesTwoOfEightExperts) {
  const Model made = model("mixtral-8x7b").value();
  double taken = 0;
  for (const Unit& unit : made.units)
    if (unit.name.rfind("blocks.0.expert.", 0) == 0) taken += unit.token_share;
  EXPECT_EQ(taken, 2 * 3) << "three matrices each";
}

TEST(ModelShapes, AGptSpelledOutHasThePositionsAskedFor) {
  // 2 layers of 12·4² + 13·4 parameters, 10 words and 6 positions of 4, a norm of 8.
  const Model tied = model("gpt:layers=2,hidden=4,heads=2,vocab=10", 6).value();
  EXPECT_EQ(tied.n_params(), 2 * 244u + 64 + 8);
  EXPECT_TRUE(tied.tied());
  EXPECT_EQ(tied.most_tokens, 6u);
  const Model own = model("gpt:layers=2,hidden=4,heads=2,vocab=10,tied=0,seq=3", 6).value();
  EXPECT_EQ(own.n_params(), 2 * 244u + 13 * 4 + 8 + 40);
  EXPECT_EQ(own.most_tokens, 3u);
}

TEST(ModelShapes, AGptWithoutKeysIsTheSmallestGpt2) {
  EXPECT_EQ(model("gpt").value().n_params(), model("gpt2-124m").value().n_params());
  EXPECT_EQ(model("gpt:").value().n_params(), model("gpt2-124m").value().n_params());
}

TEST(ModelShapes, WhatIsWrongInASpelledOutOneIsNamed) {
  for (const auto& [keys, words] : std::map<std::string, std::string>{
           {"layer=4", "'layer=4' was not understood; gpt: takes key=value with the keys heads, hidden"},
           {"layers", "'layers' was not understood"},
           {"layers=0", "layers=0 is not a whole number from 1 to"},
           {"vocab=1e3", "vocab=1e3"},
           {"tied=2", "tied=2 is not a whole number from 0 to 1"},
           {"hidden=10,heads=4", "10 is not a multiple of heads 4"}}) {
    const auto refused = model("gpt:" + keys);
    ASSERT_FALSE(refused.ok()) << keys;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
  }
}

TEST(ModelShapes, AnUnknownNameIsAnsweredWithThoseThereAre) {
  const auto unknown = model("llama4");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::usage);
  EXPECT_NE(unknown.error().message.find("llama3-70b"), std::string::npos);
}

}  // namespace
}  // namespace castor::shapes
