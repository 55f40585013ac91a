// SPDX-License-Identifier: Apache-2.0
// What a session refuses, each with its sentence, and that the session goes on afterwards.
#include <castor/plugins/torch/session.h>

#include <gtest/gtest.h>

#include <castor/plugins/torch/errors.h>
#include <castor/plugins/torch/unit.h>

#include <c10/core/GradMode.h>

#include <filesystem>
#include <stdexcept>

#include "../support/scratch_folder.h"
#include "small_model.h"

namespace castor::testing {
namespace {

using namespace literals;
using test::ScratchFolder;

/// One layer at a time on the device, and updates on the host as early as they can be.
Gemini one_layer_at_a_time() {
  return {.device_budget = 8_KiB, .host_budget = 1_MiB, .set = {{"chunk_bytes", "1KiB"}}};
}

class SessionRefuses : public ::testing::TestWithParam<bool> {
 protected:
  StrategyChoice choice() const { return GetParam() ? StrategyChoice(one_layer_at_a_time()) : castor::Resident{}; }
  Session boosted(SessionOptions options = {}) {
    return boost(model_, choice(), AdamW{.lr = 0.01}, std::move(options)).value();
  }
  at::Tensor loss() {
    return guard([&] { return (model_->forward(small_input()) - 0.3).square().mean(); }).value();
  }

  std::shared_ptr<SmallModel> model_ = std::make_shared<SmallModel>();
};
INSTANTIATE_TEST_SUITE_P(With, SessionRefuses, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "gemini" : "resident"; });

std::string sentence_of(const Result<void>& refused) {
  EXPECT_FALSE(refused.ok());
  if (refused.ok()) return "";
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  return refused.error().message;
}
template <typename T>
std::string sentence_of(const Result<T>& refused) {
  return sentence_of(refused.ok() ? Result<void>() : Result<void>(refused.error()));
}

TEST_P(SessionRefuses, LossesThatBackwardCannotBeginFrom) {
  Session session = boosted();
  EXPECT_EQ(sentence_of(session.backward(at::Tensor())), "the loss is an undefined tensor");
  EXPECT_EQ(sentence_of(session.backward(model_->forward(small_input()))),
            "the loss has 32 elements; backward begins from one: take their sum or mean");
  EXPECT_EQ(sentence_of(session.backward(at::ones({}))),
            "the loss depends on no trained parameter, or was computed without gradients (NoGradGuard)");
  EXPECT_TRUE(session.backward(loss()).ok()) << "nothing was lost";
  EXPECT_TRUE(session.step().ok());
}

TEST_P(SessionRefuses, ParametersOfOtherMemory) {
  Session session = boosted();
  const at::Tensor before = loss();
  at::Tensor weight = model_->layers[1]->weight;
  at::Tensor own = at::zeros({8, 8});
  weight.set_data(own);
  EXPECT_EQ(
      sentence_of(session.backward(before)),
      "parameter layer1.weight was given other memory (parameter.data = …, set_data) since the model was boosted, "
      "and has its own again now, with the values from before; for others write them in place within "
      "castor.gathered(parameter, write=True), or load them");
  session.zero_grad().value();
  EXPECT_TRUE(own.equal(at::zeros({8, 8})));
  EXPECT_EQ(loss().item<float>(), before.item<float>());
  EXPECT_TRUE(session.backward(loss()).ok() && session.step().ok());
}

TEST_P(SessionRefuses, AnEmptyListOfFoldersToResumeFrom) {
  const auto refused = boosted().resume({});
  EXPECT_EQ(sentence_of(refused), "resume() takes the folders of a checkpoint, and none is named");
  EXPECT_EQ(refused.error().option, "resume_from");
}

TEST_P(SessionRefuses, NoModel) {
  EXPECT_EQ(sentence_of(boost(nullptr, choice(), AdamW{})), "there is no model: the pointer is null");
}

TEST_P(SessionRefuses, CheckpointsOfOtherShapes) {
  struct Square final : Unit<> {
    explicit Square(const at::Tensor& values) : Unit("Square") { weight = register_parameter("weight", values); }
    at::Tensor forward(const at::Tensor& x) {
      return run(x, [&](const at::Tensor& in) { return at::linear(in, weight); });
    }
    at::Tensor weight;
  };
  const ScratchFolder saved;
  const at::Tensor values = at::arange(12, at::kFloat).view({3, 4});
  {
    const auto model = std::make_shared<Square>(values.clone());
    Session session = boost(model, choice(), AdamW{}).value();
    session.backward(model->forward(at::ones({2, 4})).sum()).value();
    session.step().value();
    session.save(saved.path()).value();
  }
  const auto refusal = [&](const at::Tensor& other) {
    Session session = boost(std::make_shared<Square>(other), choice(), AdamW{}).value();
    return sentence_of(session.resume({saved.path()}));
  };
  const std::string begin =
      "`resume_from` " + std::string(saved.path()) + ": its parameter \"weight\" of shape [3,4], trained is here ";
  EXPECT_EQ(refusal(at::zeros({4, 3})),
            begin + "\"weight\" of shape [4,3], trained; give the model that was trained there");
  EXPECT_TRUE(boost(std::make_shared<Square>(at::zeros({3, 4})), choice(), AdamW{})->resume({saved.path()}).ok());
}

/// The masters are those of the parameter as it is indexed, whatever the order of its memory.
TEST_P(SessionRefuses, NoOrderOfMemoryWhenMastersAreRead) {
  const at::Tensor values = at::arange(24, at::kFloat).view({4, 6});
  struct Turned final : Unit<> {
    explicit Turned(const at::Tensor& w) : Unit("Turned") { weight = register_parameter("weight", w); }
    at::Tensor weight;
  };
  const auto model = std::make_shared<Turned>(values.clone().t());
  Session session = boost(model, choice(), AdamW{}).value();
  EXPECT_TRUE(at::equal(session.read_master("weight").value(), values.t()));
}

TEST_P(SessionRefuses, ToBeStoppedByACallbackThatThrows) {
  bool throws = false;
  Session session = boosted({.interrupted = [&]() -> bool {
                               if (throws) throw std::runtime_error("the caller's own");
                               return false;
                             },
                             .log = [](castor_log_level, std::string_view) { throw std::runtime_error("no log"); }});
  session.backward(loss()).value();
  session.step().value();
  throws = true;
  if (!GetParam()) return;  // the resident run has no hooks at units
  const auto ended = guard([&] { return model_->forward(small_input()); });
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().kind, ErrorKind::interrupted);
}

/// Updates of the step may have begun in its last backward pass: there is no model to evaluate until it has ended.
TEST(SessionOrder, AForwardPassAfterTheLastBackwardPassIsRefusedAndTheStepGoesOn) {
  const auto trained = [](bool evaluates) {
    const auto model = std::make_shared<SmallModel>();
    Session session = boost(model, one_layer_at_a_time(), AdamW{.lr = 0.01}).value();
    for (int step = 0; step < 5; ++step) {
      session.backward((model->forward(small_input()) - 0.3).square().mean()).value();
      if (evaluates) {
        const at::NoGradGuard no_grad;
        EXPECT_EQ(
            sentence_of(guard([&] { return model->forward(small_input()); })),
            "parameters may have been updated already in the last backward pass of the step; call step() before "
            "the next forward pass, or raise micro_batches; without a number no update "
            "begins before step()");
      }
      session.step().value();
      const at::NoGradGuard no_grad;
      EXPECT_TRUE(guard([&] { return model->forward(small_input()); }).ok()) << "between steps it may";
    }
    return session.digest().value();
  };
  EXPECT_EQ(trained(true), trained(false));
}

TEST(SessionOrder, ValuesThatMayChangeLeaveRoomToEvaluate) {
  const auto model = std::make_shared<SmallModel>();
  Session session = boost(model, one_layer_at_a_time(), AdamW{.lr = 0.01}, {.values_may_change = true}).value();
  for (int step = 0; step < 4; ++step) {
    session.backward((model->forward(small_input()) - 0.3).square().mean()).value();
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(guard([&] { return model->forward(small_input()); }).ok());
    EXPECT_TRUE(session.step().ok());
  }
}

TEST(SessionOrder, AForwardPassAfterAFailureNamesTheWayOut) {
  const auto model = std::make_shared<SmallModel>();
  Session session = boost(model, one_layer_at_a_time(), AdamW{}).value();
  const at::Tensor once = (model->forward(small_input()) - 0.3).square().mean();
  const at::Tensor broken = once.clone();
  broken.register_hook([](const at::Tensor& grad) -> at::Tensor {
    throw std::runtime_error("no");
    return grad;
  });
  EXPECT_FALSE(session.backward(broken).ok());
  EXPECT_EQ(sentence_of(guard([&] { return model->forward(small_input()); })),
            "a call of this step has failed; drop the step with zero_grad() and begin it anew");
  session.zero_grad().value();
  session.backward((model->forward(small_input()) - 0.3).square().mean()).value();
  EXPECT_TRUE(session.step().ok());
}

/// What a program writes to a weight is not in its master.
TEST_P(SessionRefuses, WeightsThatWereWrittenInPlace) {
  Session session = boosted();
  const at::Tensor before = loss();
  if (GetParam()) {
    const at::Tensor& bound = model_->layers[2]->bias;  // of the last unit, which is on the device still
    bound.unsafeGetTensorImpl()->bump_version();
  } else {
    const at::NoGradGuard no_grad;
    model_->layers[2]->bias.mul_(0.5);
  }
  EXPECT_EQ(sentence_of(session.backward(before)),
            "parameter layer2.bias was written in place, which its master has not seen, so the next update would undo "
            "it; between two steps, of which zero_grad() drops one under way, load its values (model.load_state_dict), or "
            "write them again within castor.gathered(parameter, write=True)");
  session.zero_grad().value();
  EXPECT_FALSE(session.backward(loss()).ok()) << "as long as its master has other values";
  session.zero_grad().value();
  session.load({{"layer2.bias", at::ones(8)}}).value();
  EXPECT_TRUE(session.backward(loss()).ok()) << "values that are loaded are no such write";
  EXPECT_TRUE(session.step().ok());
}

TEST_P(SessionRefuses, BackwardPassesThatItDoesNotKnowOf) {
  Session session = boosted();
  if (!GetParam()) return;  // the resident run has no hooks at units
  const at::Tensor own = loss();
  EXPECT_EQ(sentence_of(guard([&] { own.backward(); })),
            "a backward pass was begun without the session (loss.backward() or a gradient function); call "
            "backward(loss) of the session, which also ends the pass");
  session.backward(loss()).value();
  EXPECT_TRUE(session.step().ok()) << "nothing was lost";
}

TEST_P(SessionRefuses, FoldersThatAreOne) {
  const ScratchFolder saved;
  const std::string folder = saved.path();
  EXPECT_EQ(sentence_of(boost(model_, choice(), AdamW{}, {.save_in = {folder, folder + "/."}})),
            "folder " + folder + "/. is named twice, the other time as " + folder + "; name each folder once");
}

TEST(TwoSessions, OfOneModelAreRefused) {
  const auto model = std::make_shared<SmallModel>();
  const Session first = boost(model, one_layer_at_a_time(), AdamW{}).value();
  EXPECT_EQ(sentence_of(boost(model, one_layer_at_a_time(), AdamW{})),
            "unit layer0 is trained by another strategy; end that session, or disconnect its adapter, before the model "
            "is given to a new one");
}

TEST(TwoSessions, OfOneResidentModelAreRefused) {
  const auto model = std::make_shared<SmallModel>();
  {
    const Session first = boost(model, castor::Resident{}, AdamW{}).value();
    for (const StrategyChoice& choice : {StrategyChoice(one_layer_at_a_time()), StrategyChoice(castor::Resident{})})
      EXPECT_EQ(sentence_of(boost(model, choice, AdamW{})),
                "parameter layer0.weight is trained by another strategy; end that session, or disconnect its adapter, "
                "before the model is given to a new one");
  }
  EXPECT_TRUE(boost(model, one_layer_at_a_time(), AdamW{}).ok()) << "the first has ended";
}

TEST(NvmeFolders, MayHaveACommaButNeedAName) {
  const ScratchFolder scratch;
  const std::filesystem::path folder = std::filesystem::path(scratch.path()) / "p,q\\";
  std::filesystem::create_directory(folder);
  EXPECT_TRUE(boost(std::make_shared<SmallModel>(), Gemini{.nvme = {folder}}, AdamW{}).ok());
  EXPECT_EQ(sentence_of(boost(std::make_shared<SmallModel>(), Gemini{.nvme = {""}}, AdamW{})),
            "a folder of `nvme` has no name");
}

}  // namespace
}  // namespace castor::testing
