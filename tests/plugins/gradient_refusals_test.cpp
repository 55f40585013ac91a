// SPDX-License-Identifier: Apache-2.0
// Every gradient that the border refuses, with its sentence. The plugin does not see it, and it is given back.
#include <castor/plugins/booster.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "fake_model_host.h"

namespace castor {
namespace {

using test::FakeModelHost;

struct Row {
  const char* what;
  std::uint32_t param;                   ///< for which it is handed over
  std::function<void(DLTensor&)> spoil;  ///< a sound gradient of w
  const char* sentence;
};

std::int64_t columns_first[] = {1, 2};
std::int64_t another_shape[] = {3, 2};

const Row kRows[] = {
    {"of no parameter", 3, [](DLTensor&) {}, "a gradient arrived for parameter 3, the model has 3"},
    {"of a frozen one", 1, [](DLTensor&) {},
     "the gradient of frozen is refused: the parameter is frozen and takes none"},
    {"of another width", 0, [](DLTensor& grad) { grad.dtype = test::kFp32; },
     "the gradient of w is refused: it is fp32, the parameter bf16"},
    {"of another kind of float", 0, [](DLTensor& grad) { grad.dtype = test::kFp16; },
     "the gradient of w is refused: it is fp16, the parameter bf16"},
    {"of integers", 0,
     [](DLTensor& grad) {
       grad.dtype = {kDLInt, 16, 1};
     },
     "the gradient of w is refused: it is DLPack type 0 of 16 bits, the parameter bf16"},
    {"of vectors", 0, [](DLTensor& grad) { grad.dtype.lanes = 2; },
     "the gradient of w is refused: it is bf16 in vectors of 2, the parameter bf16"},
    {"of another shape", 0, [](DLTensor& grad) { grad.shape = another_shape; },
     "the gradient of w is refused: its shape is [3, 2], the parameter's [2, 3]"},
    {"of fewer dimensions", 0, [](DLTensor& grad) { grad.ndim = 1; },
     "the gradient of w is refused: its shape is [2], the parameter's [2, 3]"},
    {"of another parameter", 2, [](DLTensor&) {},
     "the gradient of v is refused: its shape is [2, 3], the parameter's [6]"},
    {"in another order", 0, [](DLTensor& grad) { grad.strides = columns_first; },
     "the gradient of w is refused: its strides are [1, 2], the parameter's [3, 1]"},
    {"on another device", 0,
     [](DLTensor& grad) {
       grad.device = {kDLCUDA, 1};
     },
     "the gradient of w is refused: it is on device 2:1, the model on 1:0"},
    {"without data", 0, [](DLTensor& grad) { grad.data = nullptr; }, "the gradient of w is refused: it has no data"},
};

TEST(GradientRefusals, HaveASentenceEach) {
  FakeModelHost model({{"w", {2, 3}, test::kBf16, std::vector<float>(6)},
                       {"frozen", {2, 3}, test::kBf16, std::vector<float>(6), false},
                       {"v", {6}, test::kBf16, std::vector<float>(6)}},
                      {{"unit", {0, 1, 2}}});
  const auto strategy =
      Booster::make(PluginLoader("", {STUB_DIR}).load("stub_recorder").value(), {}).value().boost(model).value();
  const std::size_t n_calls = model.calls().size();
  for (const Row& row : kRows) {
    DLManagedTensor* const grad = model.make_gradient(0, std::vector<float>(6, 1));
    row.spoil(grad->dl_tensor);
    const auto refused = strategy->gradient(row.param, grad);
    ASSERT_FALSE(refused.ok()) << row.what;
    EXPECT_EQ(refused.error().kind, ErrorKind::plugin) << row.what;
    EXPECT_EQ(refused.error().message, row.sentence) << row.what;
    EXPECT_EQ(model.n_live_gradients(), 0) << row.what;
  }
  EXPECT_EQ(model.calls().size(), n_calls);
  EXPECT_TRUE(strategy->gradient(0, model.make_gradient(0, std::vector<float>(6, 1))).ok()) << "a sound one";
}

}  // namespace
}  // namespace castor
