// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/runtime.h>
#include "poisoning_strategy.h"
#include "small_model.h"

#include <gtest/gtest.h>

namespace castor::testing {
namespace {

/// A unit whose body returns a view of its parameter, of its input, or the input itself.
class ViewUnit final : public Unit<> {
 public:
  enum class Kind { of_parameter, of_input, input };
  explicit ViewUnit(Kind kind) : Unit("ViewUnit"), kind_(kind) {
    weight = declare("weight", {2, 3}, at::TensorOptions(at::kFloat), Init::ones());
  }
  at::Tensor forward(const at::Tensor& x) {
    return run(x, [&](const at::Tensor& in) { return body(in); });
  }
  at::Tensor weight;

 private:
  at::Tensor body(const at::Tensor& in) const {
    if (kind_ == Kind::of_parameter) return weight.narrow(0, 0, 1);
    return kind_ == Kind::of_input ? in.view({6}) : in;
  }
  const Kind kind_;
};

struct HookedView {
  explicit HookedView(ViewUnit::Kind kind) : unit(std::make_shared<ViewUnit>(kind)) {
    adapter->connect(strategy.get());
  }
  std::shared_ptr<ViewUnit> unit;
  std::unique_ptr<TorchAdapter> adapter = TorchAdapter::make(unit, c10::kCPU).value();
  std::unique_ptr<PoisoningStrategy> strategy = std::make_unique<PoisoningStrategy>(*adapter);
};

std::string message_of_access(const at::Tensor& parameter) {
  const auto sum = guard([&] { return parameter.detach().sum(); });
  return sum.ok() ? "no error" : sum.error().message;
}

TEST(Unit, AParameterThatIsNotPlacedSaysSo) {
  const SmallModel model;
  EXPECT_NE(message_of_access(model.layers[0]->weight).find("parameter weight is declared but not placed yet"),
            std::string::npos);
}

TEST(Unit, AReleasedParameterSaysWhy) {
  const auto model = std::make_shared<SmallModel>();
  const auto adapter = TorchAdapter::make(model, c10::kCPU).value();
  ModelHost& host = adapter->host();
  const PlainMemory memory(*adapter);
  EXPECT_EQ(message_of_access(model->layers[1]->bias), "no error");
  host.unbind(3, "chunk 12 is on nvme").value();
  EXPECT_NE(message_of_access(model->layers[1]->bias).find("parameter layer1.bias: chunk 12 is on nvme"),
            std::string::npos);
  host.bind(3, memory.values()[3].data_ptr()).value();
  EXPECT_EQ(message_of_access(model->layers[1]->bias), "no error");
}
TEST(Unit, ADeclaredParameterHasSizesButNoMemory) {
  const Layer layer(1 << 20, 1 << 20, at::TensorOptions(at::kBFloat16));  // 2 TiB, were it allocated
  EXPECT_EQ(layer.weight.numel(), std::int64_t{1} << 40);
  EXPECT_EQ(layer.weight.storage().nbytes(), std::size_t{1} << 41);
  EXPECT_TRUE(layer.weight.is_contiguous());
  EXPECT_TRUE(layer.weight.requires_grad());
}

TEST(Unit, ADeclaredParameterIsOnTheDeviceThatItsOptionsName) {
  const auto device_of = [](c10::Device device) {
    return Layer(2, 2, at::TensorOptions(at::kFloat).device(device)).weight.device();
  };
  EXPECT_EQ(device_of(c10::Device(c10::kCUDA, 3)), c10::Device(c10::kCUDA, 3));
  EXPECT_EQ(device_of(c10::Device(c10::kCPU, 0)), c10::Device(c10::kCPU));
  EXPECT_EQ(device_of(c10::kCUDA), c10::Device(c10::kCUDA, 0)) << "the current one, whether or not there is a GPU";
}

TEST(Unit, AViewOfAParameterDoesNotEscape) {
  for (const bool with_graph : {true, false}) {
    HookedView run(ViewUnit::Kind::of_parameter);
    const at::AutoGradMode mode(with_graph);
    const at::Tensor y = run.unit->forward(at::zeros({1}));
    EXPECT_FALSE(y.is_view());
    EXPECT_TRUE(at::equal(y.detach(), at::ones({1, 3})));  // a view would read NaN: the parameter's memory is gone
  }
}

TEST(Unit, WithoutAStrategyNothingIsAddedToTheGraph) {
  ViewUnit unit(ViewUnit::Kind::input);
  const at::Tensor x = at::ones({2, 3}).set_requires_grad(true);
  EXPECT_TRUE(unit.forward(x).is_same(x));
}

}  // namespace
}  // namespace castor::testing
