// SPDX-License-Identifier: Apache-2.0
// LibTorch's own layers as units: they keep their parameters and begin with the values that these have.
#include <castor/engine/engine.h>
#include "wired_units.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

namespace castor::testing {
namespace {

using torch::nn::Conv2dImpl;
using torch::nn::Conv2dOptions;
using torch::nn::EmbeddingImpl;
using torch::nn::LayerNormImpl;
using torch::nn::LinearImpl;
using torch::nn::LSTMImpl;
using torch::nn::MultiheadAttentionImpl;

/// The layers of LibTorch, or units of them.
template <template <typename> class Layer>
struct Mixed final : torch::nn::Module {
  at::Tensor loss(const at::Tensor& ids) {
    at::Tensor x = norm->forward(embedding->forward(ids));  // [4, 8, 16]
    x = x + std::get<0>(attention->forward(x, x, x));
    x = std::get<0>(lstm->forward(x));
    x = conv->forward(x.view({4, 1, 8, 16})).relu_();  // in place
    return head->forward(x.flatten(1)).square().mean();
  }
  template <typename M, typename... Args>
  std::shared_ptr<Layer<M>> add(const char* name, Args&&... args) {
    return register_module(name, std::make_shared<Layer<M>>(std::forward<Args>(args)...));
  }
  std::shared_ptr<Layer<EmbeddingImpl>> embedding = add<EmbeddingImpl>("embedding", 11, 16);
  std::shared_ptr<Layer<LayerNormImpl>> norm =
      add<LayerNormImpl>("norm", torch::nn::LayerNormOptions(std::vector<std::int64_t>{16}));
  std::shared_ptr<Layer<MultiheadAttentionImpl>> attention = add<MultiheadAttentionImpl>("attention", 16, 2);
  std::shared_ptr<Layer<LSTMImpl>> lstm = add<LSTMImpl>("lstm", 16, 16);
  std::shared_ptr<Layer<Conv2dImpl>> conv = add<Conv2dImpl>("conv", Conv2dOptions(1, 2, 3).padding(1));
  std::shared_ptr<Layer<LinearImpl>> head = add<LinearImpl>("head", 256, 4);
};

template <typename M>
using Itself = M;
template <typename M>
using AsUnit = Unit<M>;

template <typename Model>
std::shared_ptr<Model> seeded() {
  at::manual_seed(3);
  return std::make_shared<Model>();
}

at::Tensor ids() { return at::arange(32, at::kLong).remainder(11).view({4, 8}); }

TEST(AdoptedUnits, KeepTheirParametersAndBeginWithTheirValues) {
  const auto model = seeded<Mixed<AsUnit>>(), twin = seeded<Mixed<AsUnit>>();
  std::vector<c10::TensorImpl*> tensors;
  std::vector<c10::StorageImpl*> storages;
  for (const at::Tensor& parameter : model->parameters()) {
    tensors.push_back(parameter.unsafeGetTensorImpl());
    storages.push_back(parameter.storage().unsafeGetStorageImpl());
  }
  const auto adapter = TorchAdapter::make(model, c10::kCPU).value();
  {
    const PlainMemory memory(*adapter);  // reads the first values, then binds
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor parameter = model->parameters()[i], value = twin->parameters()[i];
      EXPECT_EQ(parameter.unsafeGetTensorImpl(), tensors[i]);
      EXPECT_EQ(parameter.storage().unsafeGetStorageImpl(), storages[i]);
      EXPECT_EQ(parameter.data_ptr(), memory.values()[i].data_ptr());
      EXPECT_EQ(parameter.strides(), value.strides());
      EXPECT_TRUE(parameter.requires_grad());
      EXPECT_TRUE(at::equal(parameter, value)) << "parameter " << i;
    }
    EXPECT_EQ(model->head->weight.data_ptr(), memory.values()[tensors.size() - 2].data_ptr()) << "the member follows";
  }
}

TEST(AdoptedUnits, FirstValuesAreReadInParts) {
  const auto model = seeded<Mixed<AsUnit>>();
  const at::Tensor weight = model->head->weight.detach().clone();
  const auto adapter = TorchAdapter::make(model, c10::kCPU).value();
  ModelHost& host = adapter->host();
  const at::Tensor found = at::zeros({1024}, at::kFloat);
  const std::uint32_t id = host.n_params() - 2;
  first_values(host, id, 0, 700, found.mutable_data_ptr<float>()).value();
  first_values(host, id, 700, 324, found.mutable_data_ptr<float>() + 700).value();
  EXPECT_TRUE(at::equal(found, weight.flatten()));
}

TEST(AdoptedUnits, SixteenBitsAreWidened) {
  const auto unit = std::make_shared<Unit<LinearImpl>>(4, 2);
  unit->to(at::kBFloat16);
  const at::Tensor weight = unit->weight.detach().to(at::kFloat).flatten();
  const auto adapter = TorchAdapter::make(unit, c10::kCPU).value();
  const at::Tensor found = at::zeros({8}, at::kFloat);
  ModelHost& host = adapter->host();
  first_values(host, 0, 0, CASTOR_ALL, found.mutable_data_ptr<float>()).value();
  EXPECT_TRUE(at::equal(found, weight));
}

TEST(AdoptedUnits, TheModelsMemoryGoesWithTheFirstBind) {
  std::vector<float> memory(8, 0.25f), elsewhere(8);
  bool freed = false;
  const auto unit = std::make_shared<Unit<LinearImpl>>(torch::nn::LinearOptions(4, 2).bias(false));
  unit->weight.set_data(at::from_blob(
      memory.data(), {2, 4}, [&](void*) { freed = true; }, at::kFloat));
  const auto adapter = TorchAdapter::make(unit, c10::kCPU).value();
  ModelHost& host = adapter->host();
  first_values(host, 0, 0, CASTOR_ALL, elsewhere.data()).value();
  first_values(host, 0, 0, CASTOR_ALL, elsewhere.data()).value();
  EXPECT_FALSE(freed);
  host.bind(0, elsewhere.data()).value();
  EXPECT_TRUE(freed);
  const auto gone = first_values(host, 0, 0, CASTOR_ALL, elsewhere.data());
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().kind, ErrorKind::usage);
  EXPECT_EQ(gone.error().message,
            "parameter weight was bound to other memory, which freed its first values; make the model anew for another "
            "strategy");
}

/// Gradients by plain LibTorch, without any adapter.
std::vector<at::Tensor> plain_mixed_grads() {
  const auto model = seeded<Mixed<Itself>>();
  model->loss(ids()).backward();
  std::vector<at::Tensor> grads;
  for (const at::Tensor& parameter : model->parameters()) grads.push_back(parameter.grad());
  return grads;
}

TEST(AdoptedUnits, GradientsEqualPlainLibTorch) {
  const auto plain = plain_mixed_grads();
  const auto model = seeded<Mixed<AsUnit>>();
  const auto adapter = TorchAdapter::make(model, c10::kCPU).value();
  PoisoningStrategy strategy(*adapter);
  adapter->connect(&strategy);
  ASSERT_TRUE(adapter->backward(guard([&] { return model->loss(ids()); }).value()).ok());
  ASSERT_EQ(adapter->n_params(), plain.size());
  for (std::uint32_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::equal(strategy.grads[i].at(0), plain[i])) << i;
}

castor_step_args adamw() {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_ADAMW;
  args.lr = 0.01, args.beta1 = 0.9, args.beta2 = 0.999, args.eps = 1e-8, args.weight_decay = 0.1;
  args.loss_scale = 1;
  return args;
}

std::vector<at::Tensor> masters_after_steps(Mixed<AsUnit>& model, TorchAdapter& adapter, Strategy& strategy) {
  for (int step = 0; step < 3; ++step) {
    adapter.backward(guard([&] { return model.loss(ids()); }).value()).value();
    strategy.step(adamw()).value();
  }
  std::vector<at::Tensor> masters;
  for (std::uint32_t i = 0; i < adapter.n_params(); ++i) {
    masters.push_back(at::empty(model.parameters()[i].sizes(), at::kFloat));
    strategy.read_master(i, masters[i].mutable_data_ptr<float>()).value();
  }
  return masters;
}

TEST(AdoptedUnits, TrainUnderATightBudgetAsWhereAllIsResident) {
  const auto resident = seeded<Mixed<AsUnit>>(), tight = seeded<Mixed<AsUnit>>();
  const auto adapter = TorchAdapter::make(resident, c10::kCPU).value();
  const auto strategy = make_resident_strategy(*adapter).value();
  const auto expected = masters_after_steps(*resident, *adapter, *strategy);

  const auto tight_adapter = TorchAdapter::make(tight, c10::kCPU).value();
  EngineOptions options;
  options.update_threads = 1;
  options.chunk_bytes = 2048;
  options.device_budget_bytes = 12288;  // of the 20 KiB
  const auto engine = Engine::make(tight_adapter->host(), options).value();
  engine->attach().value();
  tight_adapter->connect(engine.get());
  const auto found = masters_after_steps(*tight, *tight_adapter, *engine);
  tight_adapter->connect(nullptr);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << "parameter " << i;
  const at::Tensor first = seeded<Mixed<Itself>>()->head->weight;
  EXPECT_LT((expected[expected.size() - 2] - first).abs().max().item<float>(), 0.032f) << "three steps of 0.01 from it";
  EXPECT_GT((expected[expected.size() - 2] - first).abs().max().item<float>(), 0.01f);
}

TEST(AdoptedUnits, ArePartsOfASequential) {
  at::manual_seed(4);
  const std::vector<std::int64_t> sizes = {16};
  const torch::nn::Sequential model(Unit<LinearImpl>(8, 16), torch::nn::GELU(), Unit<LayerNormImpl>(sizes));
  at::manual_seed(4);
  torch::nn::Sequential plain(LinearImpl(8, 16), torch::nn::GELU(), LayerNormImpl(sizes));
  plain->forward(small_input()).square().sum().backward();
  const auto adapter = TorchAdapter::make(model.ptr(), c10::kCPU).value();
  PoisoningStrategy strategy(*adapter);
  adapter->connect(&strategy);
  ASSERT_TRUE(adapter->backward(model.ptr()->forward(small_input()).square().sum()).ok());
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_TRUE(at::equal(strategy.grads[i].at(0), plain->parameters()[i].grad())) << "parameter " << i;
}

/// Plain modules of a user's own.
struct Block final : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x + down->forward(at::gelu(up->forward(x))) * scale; }
  torch::nn::Linear up = register_module("up", torch::nn::Linear(8, 16));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(16, 8));
  at::Tensor scale = register_parameter("scale", at::ones({8}));
};

struct Blocks final : torch::nn::Module {
  at::Tensor forward(at::Tensor x, TorchAdapter* adapter) {
    for (const auto& block : blocks) x = adapter ? adapter->run(*block, x) : block->forward(x);
    return head->forward(x).square().sum();
  }
  std::vector<std::shared_ptr<Block>> blocks = {register_module("block0", std::make_shared<Block>()),
                                                register_module("block1", std::make_shared<Block>())};
  std::shared_ptr<Unit<LinearImpl>> head = register_module("head", std::make_shared<Unit<LinearImpl>>(8, 3));
};

std::string unit_text(ModelHost& host, std::uint32_t unit) {
  const castor_unit_info info = host.unit_info(unit).value();
  std::string text = info.name;
  for (std::uint32_t i = 0; i < info.n_params; ++i) text += ' ' + std::to_string(info.params[i]);
  return text;
}

TEST(AdoptedUnits, AnyModuleIsAUnitWhereTheUserChoosesIt) {
  const auto plain = seeded<Blocks>();
  plain->forward(small_input(), nullptr).backward();
  const auto by_name = [](const std::string& name, const torch::nn::Module&) {
    return !name.empty() && name.find('.') == std::string::npos;
  };
  const auto model = seeded<Blocks>(), other = seeded<Blocks>();
  for (const auto& [blocks, chosen] : {std::pair{model, ModuleFilter(by_name)},
                                       std::pair{other, exactly({other->blocks[0], other->blocks[1], other->head})}}) {
    const auto adapter = TorchAdapter::make(blocks, c10::kCPU, {.is_unit = chosen}).value();
    ModelHost& host = adapter->host();
    ASSERT_EQ(host.n_units(), 3u);
    EXPECT_EQ(unit_text(host, 0), "block0 0 1 2 3 4");
    EXPECT_EQ(unit_text(host, 1), "block1 5 6 7 8 9");
    EXPECT_EQ(unit_text(host, 2), "head 10 11");
    PoisoningStrategy strategy(*adapter);
    adapter->connect(&strategy);
    ASSERT_TRUE(adapter->backward(blocks->forward(small_input(), adapter.get())).ok());
    for (std::uint32_t i = 0; i < 12; ++i)
      EXPECT_TRUE(at::equal(strategy.grads[i].at(0), plain->parameters()[i].grad())) << "parameter " << i;
  }
}

TEST(AdoptedUnits, ParametersBelongToTheNearestUnitAroundThem) {
  struct Outer : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x) { return inner->forward(own->forward(x)) * scale; }
    torch::nn::Linear own = register_module("own", torch::nn::Linear(8, 8));
    std::shared_ptr<Unit<LinearImpl>> inner = register_module("inner", std::make_shared<Unit<LinearImpl>>(8, 8));
    at::Tensor scale = register_parameter("scale", at::ones({8}));
  };
  const auto plain = seeded<Outer>();
  plain->forward(small_input()).sum().backward();
  const auto model = seeded<Unit<Outer>>();
  const auto adapter = TorchAdapter::make(model, c10::kCPU).value();
  EXPECT_EQ(unit_text(adapter->host(), 0), " 0 1 2") << "the root";
  EXPECT_EQ(unit_text(adapter->host(), 1), "inner 3 4");
  PoisoningStrategy strategy(*adapter);
  adapter->connect(&strategy);
  ASSERT_TRUE(adapter->backward(model->forward(small_input()).sum()).ok());
  for (std::uint32_t i = 0; i < 5; ++i)
    EXPECT_TRUE(at::equal(strategy.grads[i].at(0), plain->parameters()[i].grad())) << "parameter " << i;
}

TEST(AdoptedUnits, AUnitThatIsNotChosenIsPartOfTheOneAroundIt) {
  const auto model = seeded<Blocks>();
  const auto root = [](const std::string& name, const torch::nn::Module&) { return name.empty(); };
  const auto adapter = TorchAdapter::make(model, c10::kCPU, {.is_unit = root}).value();
  ASSERT_EQ(adapter->host().n_units(), 1u);
  EXPECT_EQ(unit_text(adapter->host(), 0), " 0 1 2 3 4 5 6 7 8 9 10 11");
  const auto ran = guard([&] { return adapter->run(*model->blocks[0], small_input()); });
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().kind, ErrorKind::usage);
  EXPECT_NE(ran.error().message.find("is no unit; choose it as one with is_unit"), std::string::npos)
      << ran.error().message;
}

TEST(AdoptedUnits, AParameterInNoUnitIsRefusedByName) {
  const auto made = TorchAdapter::make(seeded<Blocks>(), c10::kCPU);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::usage);
  EXPECT_EQ(made.error().message,
            "parameter block0.scale is in no unit; make a module that holds it a castor::Unit, or choose one as a unit "
            "(AdapterOptions::is_unit)");
}

TEST(AdoptedUnits, AModuleThatIsRegisteredTwiceIsOneUnit) {
  struct Twice final : torch::nn::Module {
    std::shared_ptr<Unit<LinearImpl>> one = register_module("one", std::make_shared<Unit<LinearImpl>>(8, 8));
    std::shared_ptr<Unit<LinearImpl>> again = register_module("again", one);
  };
  const auto adapter = TorchAdapter::make(std::make_shared<Twice>(), c10::kCPU).value();
  EXPECT_EQ(adapter->host().n_units(), 1u);
  EXPECT_EQ(adapter->n_params(), 2u);
}

}  // namespace
}  // namespace castor::testing
