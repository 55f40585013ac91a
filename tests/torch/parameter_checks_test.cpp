// SPDX-License-Identifier: Apache-2.0
// Parameters whose memory cannot be replaced are refused by name; dense ones in another order train as in plain
// LibTorch.
#include "wired_units.h"

#include <torch/nn/modules/conv.h>

namespace castor::testing {
namespace {

/// A unit that registers the tensors that it is given, as "w0", "w1" and so on.
struct Holder final : Unit<> {
  explicit Holder(const std::vector<at::Tensor>& tensors, bool trained = true) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      register_parameter('w' + std::to_string(i), tensors[i], trained && at::isFloatingType(tensors[i].scalar_type()));
  }
};

struct Refused {
  std::vector<at::Tensor> tensors;
  const char* message;
};

const char* const kOwn = "; give it memory of its own: parameter.data = parameter.detach().clone()";

TEST(ParameterChecks, RefuseByNameWhatCannotBeBound) {
  const at::Tensor flat = at::zeros({100}), wide = at::zeros({4, 8});
  const at::Tensor twin = wide.detach();
  for (const Refused& refused :
       {Refused{{wide, twin}, "parameter w1 shares its storage with parameter w0"},
        Refused{{flat.narrow(0, 8, 12)}, "parameter w0 is 48 bytes at element 8 of a storage of 400"},
        Refused{{flat.narrow(0, 0, 12)}, "parameter w0 is 48 bytes at element 0 of a storage of 400"},
        Refused{{at::zeros({1, 4}).expand({3, 4})}, "parameter w0 has gaps or overlaps (sizes [3, 4], strides [0, 1])"},
        Refused{{wide.narrow(1, 0, 4).detach()}, "parameter w0 has gaps or overlaps (sizes [4, 4], strides [8, 1])"},
        Refused{{flat.as_strided({4, 4}, {2, 1})},
                "parameter w0 has gaps or overlaps (sizes [4, 4], strides [2, 1])"}}) {
    const auto made = TorchAdapter::make(std::make_shared<Holder>(refused.tensors), c10::kCPU);
    ASSERT_FALSE(made.ok()) << refused.message;
    EXPECT_EQ(made.error().kind, ErrorKind::usage);
    EXPECT_EQ(made.error().message, std::string(refused.message) + kOwn);
  }
}

TEST(ParameterChecks, RefuseByNameWhatHasNoDenseFloats) {
  for (const Refused& refused :
       {Refused{{at::zeros({3}, at::kDouble)},
                "parameter w0 is Double; parameters that are trained are fp32, fp16 or bf16: "
                "cast the model before, as with model.float()"},
        Refused{{at::_empty_affine_quantized({3}, at::kQInt8, 0.5, 0)},
                "parameter w0 is a quantized tensor; keep its values and scales as plain tensors"},
        Refused{{at::eye(3).to_sparse()}, "parameter w0 is sparse; parameters are dense"},
        Refused{{at::zeros({3}, at::kMeta)}, "parameter w0 is on meta, the model trains on cpu; move it there"}}) {
    const auto made = TorchAdapter::make(std::make_shared<Holder>(refused.tensors), c10::kCPU);
    ASSERT_FALSE(made.ok()) << refused.message;
    EXPECT_EQ(made.error().message, refused.message);
  }
}

TEST(ParameterChecks, RefuseAnotherDeviceOfTheSameKind) {
  const auto made = TorchAdapter::make(
      std::make_shared<Layer>(2, 2, at::TensorOptions(at::kFloat).device(c10::Device(c10::kCUDA, 1))), c10::kCPU);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "parameter weight is on cuda:1, the model trains on cpu; move it there");
  EXPECT_TRUE(TorchAdapter::make(std::make_shared<SmallModel>(), c10::Device(c10::kCPU, 0)).ok());
}

TEST(ParameterChecks, RefuseTheResultOfAnOperator) {
  const at::Tensor base = at::ones({3}).set_requires_grad(true);
  const auto made = TorchAdapter::make(std::make_shared<Holder>(std::vector<at::Tensor>{base * 2}), c10::kCPU);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "parameter w0 is the result of an operator; register its detach()");
}

TEST(ParameterChecks, RefuseAParameterWhoseValuesAreGone) {
  const auto unit = std::make_shared<Holder>(std::vector<at::Tensor>{at::ones({3})});
  {
    const auto adapter = TorchAdapter::make(unit, c10::kCPU).value();
    ModelHost& host = adapter->host();
    host.unbind(0, "gone").value();
  }
  const auto made = TorchAdapter::make(unit, c10::kCPU);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "parameter w0 has no memory, and no unit has declared its first values");
}

TEST(ParameterChecks, OneTensorUnderTwoNamesIsOneParameter) {
  const at::Tensor tied = at::ones({3});
  const auto unit = std::make_shared<Holder>(std::vector<at::Tensor>{tied, tied});
  const auto adapter = TorchAdapter::make(unit, c10::kCPU).value();
  EXPECT_EQ(adapter->n_params(), 1u);
}

TEST(ParameterChecks, ParametersWithoutElementsShareNothing) {
  const at::Tensor none = at::zeros({0});
  EXPECT_TRUE(TorchAdapter::make(std::make_shared<Holder>(std::vector<at::Tensor>{none, none.detach(), at::ones({1})}),
                                 c10::kCPU)
                  .ok());
}

/// A convolution in channels_last and a transposed matrix: dense, in an order of their own.
struct Strided final : torch::nn::Module {
  explicit Strided(bool strided = true) {
    at::manual_seed(9);
    conv = register_module("conv", std::make_shared<Unit<torch::nn::Conv2dImpl>>(torch::nn::Conv2dOptions(3, 5, 3)));
    matrix = register_module("matrix", std::make_shared<FreeUnit>());
    columns = register_module("columns", std::make_shared<Holder>(std::vector<at::Tensor>{}));
    const at::Tensor values = at::rand({4, 6});
    const at::Tensor weight = strided ? values.t().contiguous().t() : values.clone();
    transposed = columns->register_parameter("weight", weight.detach());
    if (strided) conv->weight.set_data(conv->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor loss() {
    const at::Tensor x = at::sin(at::arange(2 * 3 * 8 * 8, at::kFloat)).view({2, 3, 8, 8});
    const at::Tensor y = conv->forward(x).flatten(2).narrow(2, 0, 8);
    const at::Tensor z = (*matrix)({y}, curved)[0].narrow(2, 0, 6);
    return columns->run(z, [&](const at::Tensor& in) { return at::linear(in, transposed); }).square().sum();
  }
  std::shared_ptr<Unit<torch::nn::Conv2dImpl>> conv;
  std::shared_ptr<FreeUnit> matrix;
  std::shared_ptr<Holder> columns;
  at::Tensor transposed;
};

TEST(ParameterChecks, StridedParametersCrossTheBorderInStorageOrder) {
  const auto model = std::make_shared<Strided>();
  const at::Tensor conv = model->conv->weight.detach().clone(), transposed = model->transposed.detach().clone();
  const auto adapter = TorchAdapter::make(model, c10::kCPU).value();
  ModelHost& host = adapter->host();
  const auto values_of = [&](std::uint32_t id, std::int64_t n) {
    const at::Tensor found = at::empty({n}, at::kFloat);
    first_values(host, id, 0, CASTOR_ALL, found.mutable_data_ptr<float>()).value();
    return found;
  };
  EXPECT_TRUE(at::equal(values_of(0, 135), conv.permute({0, 2, 3, 1}).flatten()));
  EXPECT_TRUE(at::equal(values_of(3, 24), transposed.t().flatten()));
  const castor_param_info info = host.param_info(0).value();
  EXPECT_EQ(std::vector<std::int64_t>(info.shape, info.shape + 4), (std::vector<std::int64_t>{5, 3, 3, 3}));
  EXPECT_EQ(std::vector<std::int64_t>(info.strides, info.strides + 4), (std::vector<std::int64_t>{27, 1, 9, 3}));
}

/// Gradients by the model's own autograd, with its memory bound for good.
std::vector<at::Tensor> plain_strided_grads() {
  const auto model = std::make_shared<Strided>();
  const auto adapter = TorchAdapter::make(model, c10::kCPU, {.seed = 5}).value();
  const PlainMemory memory(*adapter);
  model->loss().backward();
  std::vector<at::Tensor> grads;
  for (const at::Tensor& parameter : model->parameters()) grads.push_back(parameter.grad());
  return grads;
}

TEST(ParameterChecks, StridedParametersAreBoundAndTheirGradientsFollowTheStorage) {
  const auto plain = plain_strided_grads();
  const auto model = std::make_shared<Strided>();
  const at::IntArrayRef strides = model->conv->weight.strides();
  const auto adapter = TorchAdapter::make(model, c10::kCPU, {.seed = 5}).value();
  PoisoningStrategy strategy(*adapter);
  adapter->connect(&strategy);
  ASSERT_TRUE(adapter->backward(guard([&] { return model->loss(); }).value()).ok());
  EXPECT_EQ(model->conv->weight.strides(), strides);
  const auto parameters = model->parameters();
  for (std::uint32_t id = 0; id < 4; ++id) {
    const at::Tensor& grad = strategy.grads[id].at(0);
    EXPECT_TRUE(at::equal(grad, plain[id])) << id;
    EXPECT_EQ(grad.strides(), parameters[id].strides()) << id;
  }
}

/// One step of w -= lr * grad, element by element, whatever the order of the storage.
TEST(ParameterChecks, TheResidentRunUpdatesStridedParameters) {
  const auto plain = plain_strided_grads();
  const auto model = std::make_shared<Strided>();
  const at::Tensor before = model->conv->weight.detach().clone(), before_t = model->transposed.detach().clone();
  const auto adapter = TorchAdapter::make(model, c10::kCPU, {.seed = 5}).value();
  const auto strategy = make_resident_strategy(*adapter, {.keeps_exp_avg_sq = false}).value();
  EXPECT_TRUE(at::equal(model->conv->weight, before));
  EXPECT_TRUE(at::equal(model->transposed, before_t));
  ASSERT_TRUE(adapter->backward(model->loss()).ok());
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_SGD;
  args.lr = 0.125, args.loss_scale = 1;
  ASSERT_TRUE(strategy->step(args).ok());
  EXPECT_TRUE(at::allclose(model->conv->weight, before - 0.125 * plain[0], 1e-6, 1e-7));
  EXPECT_TRUE(at::allclose(model->transposed, before_t - 0.125 * plain[3], 1e-6, 1e-7));
}

}  // namespace
}  // namespace castor::testing
