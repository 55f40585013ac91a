// SPDX-License-Identifier: Apache-2.0
// Trains a LibTorch module whose weights, gradients and optimizer states lie in three tiers of memory.
//
//   g++ -O2 train_module.cpp $(pkg-config --cflags --libs castor-torch) -o train_module && ./train_module FOLDER
#include <castor/torch.h>
#include <torch/torch.h>

#include <cstdio>

/// A module as it was: castor::Unit marks the layers that are fetched and released as a whole.
struct Net : torch::nn::Module {
  using Linear = castor::Unit<torch::nn::LinearImpl>;

  Net() {
    layers->push_back(std::make_shared<Linear>(64, 256));
    for (int i = 0; i < 6; ++i) {
      layers->push_back(torch::nn::GELU());
      layers->push_back(std::make_shared<Linear>(256, 256));
    }
    layers->push_back(std::make_shared<Linear>(256, 10));
    register_module("layers", layers);
  }
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x); }

  torch::nn::Sequential layers;
};

int main(int argc, char** argv) {
  using namespace castor::literals;
  torch::manual_seed(1);
  const auto net = std::make_shared<Net>();
  const castor::Gemini tiers = {.device_budget = 1_MiB, .host_budget = 2_MiB, .nvme = {argc > 1 ? argv[1] : "/tmp"}};
  auto session = castor::boost(net, tiers, castor::AdamW{.lr = 2e-3});
  if (!session) return std::fprintf(stderr, "%s\n", session.error().message.c_str()), 1;

  const at::Tensor directions = torch::randn({64, 10});
  for (int step = 1; step <= 200; ++step) {
    const at::Tensor x = torch::randn({128, 64}), nearest = x.mm(directions).argmax(1);
    const at::Tensor loss = torch::cross_entropy_loss(net->forward(x), nearest);
    session->backward(loss).value();
    session->step().value();
    if (step % 40 == 0) std::printf("step %3d  loss %.3f\n", step, loss.item<double>());
  }
  const castor::RunStats stats = session->stats().value();
  for (const auto tier : {castor::Tier::device, castor::Tier::host, castor::Tier::nvme})
    std::printf("%s: at most %.2f MiB\n", castor::name(tier),
                double(stats.peak_bytes[castor::index(tier)]) / (1 << 20));
}
