// SPDX-License-Identifier: Apache-2.0
#include "shapes/model_shapes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace castor::shapes {
namespace {

// Counts that others published: the parameters of the checkpoints.
TEST(ModelShapes, HaveAsManyParametersAsTheirCheckpoints) {
  const std::map<std::string, std::uint64_t> published = {
      {"gpt2-124m", 124'439'808},       {"gpt2-355m", 354'823'168},   {"gpt2-774m", 774'030'080},
      {"gpt2-1.5b", 1'557'611'200},     {"llama2-7b", 6'738'415'616}, {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},   {"llama3-8b", 8'030'261'248}, {"llama3-70b", 70'553'706'496},
      {"mixtral-8x7b", 46'702'792'704}, {"vit-b", 86'567'656},        {"vit-l", 304'326'632},
      {"vit-h", 632'045'800},
  };
  for (const auto& [name, n_params] : published) EXPECT_EQ(model(name).value().n_params(), n_params) << name;
}

TEST(ModelShapes, EveryNameHasUnitsWithParameters) {
  for (const std::string& name : model_names()) {
    const Model made = model(name).value();
    EXPECT_EQ(made.name, name);
    EXPECT_LT(made.head_unit, made.units.size());
    for (const Unit& unit : made.units)
      for (const auto numel : unit.numels) EXPECT_GT(numel, 0u) << name << " " << unit.name;
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
