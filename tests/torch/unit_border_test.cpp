// SPDX-License-Identifier: Apache-2.0
// Units whose weights have memory only while they compute, wired in unusual ways: the bits and the graph of plain
// LibTorch.
#include <castor/plugins/torch/recompute.h>
#include "wired_units.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace castor::testing {
namespace {

std::vector<std::string> backward_calls(const Poisoned& poisoned) {
  std::vector<std::string> calls;
  for (const std::string& call : poisoned.strategy->log)
    if (call.find("backward ") != std::string::npos) calls.push_back(call);
  return calls;
}

Tensors used_twice(const at::Tensor& weight, const Tensors& in) {
  return {at::linear(in[0], weight) + at::sin(at::linear(in[0], weight.t()))};
}

/// The input of b is used twice inside it and once outside.
at::Tensor residual(WiredUnits& units, const at::Tensor& x) {
  const at::Tensor h = (*units.a)({x}, curved)[0];
  return (at::exp(h) + (*units.b)({h}, used_twice)[0]).sum();
}

TEST(UnitBorder, AnInputUsedTwiceInsideAndOnceOutsideIsSummedAsWithoutTheUnit) { expect_as_plain(residual); }

// The test above could not fail if the sums were equal anyway.
TEST(UnitBorder, TheSumOfThatInputDependsOnItsOrder) {
  const at::Tensor weight = at::cos(at::arange(64, at::kFloat)).view({8, 8});
  const at::Tensor h = small_input().set_requires_grad(true);
  const auto grad_of = [&](const at::Tensor& y) { return torch::autograd::grad({y.sum()}, {h})[0]; };
  const at::Tensor outside = grad_of(at::exp(h)), first = grad_of(at::linear(h, weight)),
                   second = grad_of(at::sin(at::linear(h, weight.t())));
  EXPECT_FALSE(at::equal((outside + second) + first, outside + (second + first)));
}

TEST(UnitBorder, AReturnedViewMayBeChangedInPlace) {
  expect_as_plain([](WiredUnits& units, const at::Tensor& x) {
    const auto flat = [](const at::Tensor& w, const Tensors& in) { return Tensors{product(w, in)[0].view({32})}; };
    at::Tensor h = (*units.a)({x}, flat)[0];
    h.mul_(3).relu_();
    at::Tensor y = (*units.b)({h.view({4, 8})}, used_twice)[0];
    y += 1;
    return (*units.c)({y}, product)[0].square().sum();
  });
}

TEST(UnitBorder, ABaseMayBeChangedThroughAnotherView) {
  expect_as_plain([](WiredUnits& units, const at::Tensor& x) {
    const Tensors halves = (*units.a)({x}, [](const auto& w, const auto& in) {
      const at::Tensor y = product(w, in)[0];
      return Tensors{y.narrow(0, 0, 2), y.narrow(0, 2, 2), y};
    });
    halves[0].mul_(2);
    return ((*units.b)({halves[2]}, curved)[0] * halves[2]).sum();
  });
}

TEST(UnitBorder, AUnitMayChangeItsInputInPlace) {
  for (const bool of_view : {false, true})
    expect_as_plain([&](WiredUnits& units, const at::Tensor& x) {
      const at::Tensor h = (*units.a)({x}, product)[0];
      const at::Tensor y = (*units.b)({of_view ? h.view({32}) : h}, [](const at::Tensor& w, const Tensors& in) {
        return Tensors{in[0].mul_(w.flatten().narrow(0, 0, in[0].size(-1)))};
      })[0];
      return (*units.c)({y.view({4, 8})}, curved)[0].sum() + h.sum();
    });
}

TEST(UnitBorder, AnInputMayBeReturnedAsItIs) {
  for (const bool as_view : {false, true})
    expect_as_plain([&](WiredUnits& units, const at::Tensor& x) {
      const at::Tensor h = (*units.a)({x}, product)[0];
      const Tensors y = (*units.b)({h}, [&](const at::Tensor& w, const Tensors& in) {
        return Tensors{as_view ? in[0].view({4, 8}) : in[0], in[0] + w.narrow(0, 2, 4)};
      });
      return (*units.c)({y[0].mul_(2) + y[1]}, curved)[0].sum();
    });
}

TEST(UnitBorder, AUnitWithoutWorkIsNotEnteredInBackward) {
  Poisoned poisoned;
  (void)poisoned.run([](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor h = (*units.a)({x}, curved)[0];
    const Tensors k = (*units.b)({h}, [](const at::Tensor&, const Tensors& in) { return in; });
    return ((*units.c)(k, curved)[0] * k[0]).sum();
  });
  EXPECT_EQ(backward_calls(poisoned),
            (std::vector<std::string>{"before_backward 2", "after_backward 2", "before_backward 0"}));
}

TEST(UnitBorder, AnInputMayBeALeaf) {
  expect_as_plain([](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor h = (*units.a)({x}, curved)[0];
    const at::Tensor k = (*units.b)({x}, curved)[0];  // a leaf again
    return (*units.c)({h + k + x}, product)[0].square().sum();
  });
}

/// The gradient of the leaf is there before that of the weight, to which three more operators lead.
TEST(UnitBorder, ALeafDoesNotEndAUnitThatIsStillAtWork) {
  const Wiring wiring = [](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor h = (*units.a)({x}, curved)[0];
    const at::Tensor leaf = (x.detach() + 1).set_requires_grad(true);
    const at::Tensor k = (*units.b)({leaf}, [](const at::Tensor& w, const Tensors& in) {
      return Tensors{at::linear(in[0], at::tanh(w * w.norm() + w.exp()))};
    })[0];
    return (*units.c)({h * k}, curved)[0].sum();
  };
  expect_as_plain(wiring);
  Poisoned poisoned;
  (void)poisoned.run(wiring);
  EXPECT_EQ(backward_calls(poisoned),
            (std::vector<std::string>{"before_backward 2", "after_backward 2", "before_backward 1", "after_backward 1",
                                      "before_backward 0"}))
      << "b ends when backward gets to a, which ends with backward";
}

TEST(UnitBorder, AnInputMayHaveNoGradient) {
  expect_as_plain([](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor h = (*units.a)({x.detach()}, curved)[0];
    const at::Tensor k = (*units.b)({x.detach() + 1}, curved)[0];
    return (*units.c)({h * k}, curved)[0].sum() + x.sum();
  });
}

TEST(UnitBorder, AnInputThatIsAddedAtTheEndDoesNotEndTheUnit) {
  expect_as_plain([](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor h = (*units.a)({x}, curved)[0], k = (*units.b)({x}, curved)[0];
    return (*units.c)({h, k},
                      [](const at::Tensor& w, const Tensors& in) {
                        return Tensors{at::linear(at::tanh(at::linear(in[0], w)), w) +
                                       in[1]};  // the gradient of in[1] is there first
                      })[0]
        .square()
        .sum();
  });
}

TEST(UnitBorder, AnInputThatLaterUnitsUseTooDoesNotKeepTheUnitOpen) {
  const Wiring wiring = [](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor memory = (*units.a)({x}, curved)[0];
    const auto attend = [](const at::Tensor& w, const Tensors& in) {
      return Tensors{at::linear(at::softmax(at::linear(in[0], w).mm(in[1].t()), -1).mm(in[1]), w)};
    };
    const at::Tensor y = (*units.b)({memory * 2, memory}, attend)[0];
    return (*units.c)({y, memory}, attend)[0].square().sum();
  };
  expect_as_plain(wiring);
  Poisoned poisoned;
  (void)poisoned.run(wiring);
  EXPECT_EQ(backward_calls(poisoned),
            (std::vector<std::string>{"before_backward 2", "after_backward 2", "before_backward 1", "after_backward 1",
                                      "before_backward 0"}));
}

TEST(UnitBorder, UnitsMayBeNested) {
  const Wiring wiring = [](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor h = at::sin(x);
    return (*units.a)({h},
                      [&](const at::Tensor& w, const Tensors& in) {
                        const at::Tensor inner = (*units.b)({in[0]}, used_twice)[0];
                        return (*units.c)({at::tanh(at::linear(inner, w)) + in[0]},
                                          curved);  // a result of c is one of a
                      })[0]
        .sum();
  };
  expect_as_plain(wiring);
  Poisoned poisoned;
  (void)poisoned.run(wiring);
  EXPECT_EQ(backward_calls(poisoned),
            (std::vector<std::string>{"before_backward 0", "before_backward 2", "after_backward 2", "before_backward 1",
                                      "after_backward 1", "after_backward 0"}));
}

TEST(UnitBorder, AUnitMayBeUsedSeveralTimes) {
  expect_as_plain([](WiredUnits& units, const at::Tensor& x) {
    at::Tensor h = at::sin(x);
    for (int i = 0; i < 3; ++i) h = (*units.b)({(*units.a)({h}, used_twice)[0] + h}, curved)[0];
    return h.sum();
  });
}

TEST(UnitBorder, InputsAndResultsMayBeMissing) {
  expect_as_plain([](WiredUnits& units, const at::Tensor& x) {
    const Tensors y = (*units.a)({at::sin(x), at::Tensor()}, [](const at::Tensor& w, const Tensors& in) {
      return Tensors{at::Tensor(), at::linear(in[0], w)};
    });
    return y[1].sum();
  });
}

TEST(UnitBorder, ResultsMayBeLeftUnused) {
  expect_as_plain([](WiredUnits& units, const at::Tensor& x) {
    const auto two = [](const at::Tensor& w, const Tensors& in) {
      return Tensors{at::tanh(at::linear(in[0], w)), at::linear(in[0], w.t())};
    };
    const Tensors h = (*units.a)({at::sin(x)}, two), k = (*units.b)({h[1]}, two);
    return k[0].sum();  // nothing uses h[0] and k[1], and nothing uses c
  });
}

/// b is recomputed; where `tied`, with the weight of a.
Wiring recomputed(bool tied) {
  return [tied](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor h = (*units.a)({x}, curved)[0];
    const auto part = [&units, tied](const at::Tensor& in) {
      const at::Tensor k = (*units.b)({in}, used_twice)[0] + in;
      return tied ? (*units.a)({k}, curved)[0] : k;
    };
    return (*units.c)({recompute(part, h, units.b.get()) + h}, curved)[0].sum();
  };
}

TEST(UnitBorder, ARecomputedPartGivesTheBitsOfOneThatIsKept) {
  Poisoned poisoned;
  const Outcome found = poisoned.run(recomputed(false)), plain = plain_outcome(recomputed(false));
  expect_same(found, plain);
  const Outcome kept = plain_outcome([](WiredUnits& units, const at::Tensor& x) {
    const at::Tensor h = (*units.a)({x}, curved)[0];
    return (*units.c)({(*units.b)({h}, used_twice)[0] + h + h}, curved)[0].sum();
  });
  for (const std::size_t param : {1, 2}) EXPECT_TRUE(at::equal(found.grads[param], kept.grads[param])) << param;
}

/// The two gradients of a's weight, in the order of their arrival, are those that plain LibTorch accumulates.
TEST(UnitBorder, ARecomputedPartMayUseATiedWeight) {
  const Outcome plain = plain_outcome(recomputed(true));
  Poisoned poisoned;
  const at::Tensor x = wired_input();
  ASSERT_TRUE(poisoned.adapter->backward(recomputed(true)(*poisoned.units, x)).ok());
  EXPECT_TRUE(at::equal(x.grad(), plain.x_grad));
  const auto& grads = poisoned.strategy->grads;
  ASSERT_EQ(grads.at(0).size(), 2u) << "one of each use";
  EXPECT_TRUE(at::equal(grads.at(0)[0] + grads.at(0)[1], plain.grads[0]));
  for (const std::uint32_t param : {1u, 2u}) EXPECT_TRUE(at::equal(grads.at(param).at(0), plain.grads[param]));
}

/// b, recomputed from an input without a gradient, so that no input ends it, and then c.
Result<void> backward_of_recomputed(const Poisoned& poisoned) {
  WiredUnits& units = *poisoned.units;
  const auto part = [&](const at::Tensor& in) { return (*units.b)({in}, curved)[0]; };
  return poisoned.adapter->backward((*units.c)({recompute(part, small_input(), units.b.get())}, curved)[0].sum());
}

TEST(UnitBorder, ARecomputedPartEndsItsUnits) {
  Poisoned poisoned;
  ASSERT_TRUE(backward_of_recomputed(poisoned).ok());
  EXPECT_EQ(backward_calls(poisoned), (std::vector<std::string>{"before_backward 2", "after_backward 2",
                                                                "before_backward 1", "after_backward 1"}));
}

TEST(UnitBorder, AFailureAtTheEndOfARecomputedPartIsReported) {
  Poisoned poisoned;
  poisoned.strategy->fail_at("after_backward 1");
  const auto done = backward_of_recomputed(poisoned);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::io);
  EXPECT_EQ(done.error().message, "the drive caught fire at after_backward 1");
}

/// tanh, whose backward fails when it is told to.
struct Fragile final : torch::autograd::Function<Fragile> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const bool* broken) {
    context->saved_data["broken"] = reinterpret_cast<std::int64_t>(broken);
    return at::tanh(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto* const broken = reinterpret_cast<const bool*>(context->saved_data["broken"].toInt());
    if (*broken) throw std::runtime_error("a user's error");
    return {grads[0], at::Tensor()};
  }
};

/// a, then b within which backward may fail, then c; b recomputed or not.
Wiring fragile(const bool& broken, bool recomputes) {
  return [&broken, recomputes](WiredUnits& units, const at::Tensor& x) {
    const auto part = [&](const at::Tensor& in) {
      return (*units.b)({in}, [&](const at::Tensor& w, const Tensors& h) {
        return Tensors{at::linear(Fragile::apply(at::linear(h[0], w), &broken), w)};
      })[0];
    };
    const at::Tensor h = (*units.a)({x}, curved)[0];
    return (*units.c)({recomputes ? recompute(part, h) : part(h)}, curved)[0].sum();
  };
}

TEST(UnitBorder, AnExceptionInBackwardLeavesNoUnitOpen) {
  for (const bool recomputes : {false, true}) {
    for (const bool through_adapter : {false, true}) {
      bool broken = false;
      const Wiring wiring = fragile(broken, recomputes);
      const Outcome plain = plain_outcome(wiring);
      Poisoned poisoned;
      broken = true;
      const at::Tensor loss = wiring(*poisoned.units, wired_input());
      if (through_adapter)
        EXPECT_EQ(poisoned.adapter->backward(loss).error().message, "a user's error");
      else
        EXPECT_THROW(loss.backward(), std::runtime_error);
      broken = false;
      poisoned.strategy->grads.clear();
      expect_same(poisoned.run(wiring), plain);
    }
  }
}

TEST(UnitBorder, AnExceptionInForwardLeavesNoUnitOpen) {
  Poisoned poisoned;
  const auto failing = [&](const at::Tensor&, const Tensors& in) -> Tensors {
    (void)(*poisoned.units->b)(in, curved);
    throw std::runtime_error("a user's error");
  };
  EXPECT_THROW((void)(*poisoned.units->a)({wired_input()}, failing), std::runtime_error);
  EXPECT_EQ(poisoned.strategy->log,
            (std::vector<std::string>{"before_forward 0", "before_forward 1", "after_forward 1", "after_forward 0"}));
  expect_same(poisoned.run(residual), plain_outcome(residual));
}

/// A strategy that has failed is told of nothing more until the next forward pass.
TEST(UnitBorder, AStrategyThatFailedIsLeftAlone) {
  Poisoned poisoned;
  const auto nested = [&](const at::Tensor&, const Tensors& in) { return (*poisoned.units->b)(in, curved); };
  poisoned.strategy->fail_at("before_forward 1");
  EXPECT_THROW((void)(*poisoned.units->a)({wired_input()}, nested), ErrorException);
  EXPECT_EQ(poisoned.strategy->log.back(), "before_forward 1");
  Poisoned other;
  other.strategy->fail_at("before_backward 0");
  EXPECT_FALSE(other.adapter->backward(residual(*other.units, wired_input())).ok());
  EXPECT_EQ(other.strategy->log.back(), "before_backward 0");
}

TEST(UnitBorder, AGradientOfGradientsIsRefused) {
  Poisoned poisoned;
  const at::Tensor x = wired_input(), loss = residual(*poisoned.units, x);
  const auto grads = guard([&] { return torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true); });
  ASSERT_FALSE(grads.ok());
  EXPECT_EQ(grads.error().kind, ErrorKind::usage);
  EXPECT_EQ(
      grads.error().message,
      "a gradient of gradients (create_graph) needs all parameters at once; take it of a model that was not boosted");
}

TEST(UnitBorder, AGraphMayOutliveItsStrategy) {
  Poisoned poisoned;
  const at::Tensor loss = residual(*poisoned.units, wired_input());
  poisoned.adapter->connect(nullptr);
  poisoned.strategy.reset();
  poisoned.adapter.reset();
  const auto done = guard([&] { loss.backward(); });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message,
            "backward through a graph whose strategy was destroyed; keep the boosted model and optimizer until "
            "backward ends");
}

}  // namespace
}  // namespace castor::testing
