// SPDX-License-Identifier: Apache-2.0
// The assumptions of `castor estimate` about a training step against the plugin's record of one: the same moments, the
// same chunks, the same needs.
#include <castor/states/model_chunks.h>
#include <castor/plan/move_planner.h>
#include <castor/plugins/booster.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "forecast/estimate/iteration.h"
#include "fake_model_host.h"
#include "forecast/shapes/model_tensors.h"

namespace castor {
namespace {

using nlohmann::json;
using test::FakeModelHost;
using test::FakeParam;
using test::FakeUnit;

constexpr std::uint64_t kChunkBytes = 4096, kInputBytes = 1024;

struct Case {
  const char* name;
  bool tied, recompute, clip, inputs_in_chunks;
  DType dtype;
  std::uint64_t device_bytes;  ///< 0 = the least that works
  castor_optimizer optimizer = CASTOR_ADAMW;
  double streamed = 0;  ///< share of the states that are kept off the device
};

void PrintTo(const Case& a_case, std::ostream* out) { *out << a_case.name; }

class EstimateMoments : public ::testing::TestWithParam<Case> {
 protected:
  EstimateMoments() {
    for (const shapes::Unit& unit : model_.units) {
      auto& params = units_.emplace_back(FakeUnit{unit.name, {}}).params;
      if (unit.shares) params = units_[index(*unit.shares)].params;
      for (const std::uint64_t numel : unit.numels) {
        params.push_back(static_cast<std::uint32_t>(params_.size()));
        params_.push_back({unit.name, {static_cast<std::int64_t>(numel)}, dtype(), std::vector<float>(numel, 1)});
      }
    }
  }

  static bool keeps_exp_avg_sq() { return GetParam().optimizer != CASTOR_LARS; }
  DLDataType dtype() const { return GetParam().dtype == DType::bf16 ? test::kBf16 : test::kFp32; }

  /// Three steps through the plugin, as the models of `castor train` call it.
  json record(std::uint64_t device_bytes) {
    FakeModelHost host(params_, units_);
    const Plugin plugin = PluginLoader("", {}).load(GEMINI).value();
    const PluginOptions options = {{"device_budget", std::to_string(device_bytes)},
                                   {"chunk_bytes", std::to_string(kChunkBytes)},
                                   {"overlap_updates", "true"},
                                   {"stream_optim_frac", std::to_string(GetParam().streamed)},
                                   {"optimizer", keeps_exp_avg_sq() ? "adam" : "sgd"},
                                   {"offload_activations", GetParam().inputs_in_chunks ? "true" : "false"}};
    const auto strategy = Booster::make(plugin, options).value().boost(host).value();
    for (int i = 0; i < 3; ++i) {
      castor_step_args args{};
      args.struct_size = sizeof args;
      args.optimizer = GetParam().optimizer;
      args.trust_coefficient = 0.001;
      args.lr = 1e-3, args.beta1 = 0.9, args.beta2 = 0.99, args.eps = 1e-8, args.loss_scale = 1;
      args.max_norm = GetParam().clip ? 1 : 0;
      train(*strategy, host, args);
      strategy->step(args).value();
    }
    char name[] = "/tmp/castor-moments-XXXXXX";
    const std::filesystem::path folder = ::mkdtemp(name);
    strategy->write_trace((folder / "trace").c_str()).value();
    const json trace = json::parse(std::ifstream(folder / "trace"));
    std::filesystem::remove_all(folder);
    return trace;
  }

  estimate::Recomputation recomputation() const {
    return {GetParam().recompute, GetParam().inputs_in_chunks ? kInputBytes : 0};
  }

  /// The calls that the rehearsal assumes, but for the last unit in backward: its input needs no gradient, so that it
  /// has no after_backward.
  void train(Strategy& strategy, FakeModelHost& host, const castor_step_args& args) {
    std::vector<std::uint32_t> kept;
    const std::vector<char> input(kInputBytes);
    for (const StepCall& call : estimate::script_of(model_, recomputation())) switch (call.kind) {
        case StepCall::Kind::forward: strategy.before_forward(call.id).value(); break;
        case StepCall::Kind::end_forward: strategy.after_forward(call.id).value(); break;
        case StepCall::Kind::backward: strategy.before_backward(call.id).value(); break;
        case StepCall::Kind::end_backward:
          if (call.id > 0) strategy.after_backward(call.id).value();
          break;
        case StepCall::Kind::gradient: {
          const std::vector<float> values(params_[call.id].init.size(), 0.5f);
          strategy.gradient(call.id, host.make_gradient(call.id, values)).value();
          break;
        }
        case StepCall::Kind::keep:
          kept.push_back(strategy.activations().keep(input.data(), input.size()).value());
          break;
        case StepCall::Kind::recall: (void)strategy.activations().recall(kept.at(call.id)).value(); break;
        case StepCall::Kind::forget: strategy.activations().forget(kept.at(call.id)).value(); break;
        case StepCall::Kind::announce: strategy.announce_step(args).value(); break;
        case StepCall::Kind::end_of_backward: strategy.end_of_backward().value(); break;
      }
  }

  /// The budget that leaves room for the states of some chunks, or of none.
  std::uint64_t device_bytes(const IndexedVector<PayloadId, ChunkDemand>& demands) const {
    if (GetParam().device_bytes > 0) return GetParam().device_bytes;
    const ChunkDemand& first = demands[PayloadId{0}];
    std::uint64_t n_bytes = 2 * (first.state_bytes + first.gradient_bytes);
    for (const ChunkDemand& demand : demands) n_bytes += demand.payload_bytes;
    return n_bytes;
  }

  const shapes::Model model_ =
      shapes::model(std::string("gpt:layers=2,hidden=16,heads=1,vocab=96,tied=") + (GetParam().tied ? "1" : "0"), 8)
          .value();
  std::vector<FakeParam> params_;
  std::vector<FakeUnit> units_;
};

/// The chunks that a step uses without adding gradients up, as `kind:bytes`.
std::vector<std::string> chunks_of(const json& trace, std::vector<std::int64_t>& ids) {
  std::vector<std::string> chunks;
  for (const json& chunk : trace["chunks"]) {
    const auto label = chunk["label"].get<std::string>();
    if (label.starts_with("gradients") && label.find(", ") != std::string::npos) continue;
    ids.push_back(chunk["id"]);
    chunks.push_back(chunk["kind"].get<std::string>() + ":" + std::to_string(chunk["bytes"].get<std::uint64_t>()));
  }
  return chunks;
}

/// By moment `kind id: chunk tier access dropped arriving bytes, …`; chunks numbered as in `ids`.
std::vector<std::string> moments_of(const json& trace, const std::vector<std::int64_t>& ids) {
  std::vector<std::string> moments;
  for (const json& row : trace["moments"]) {
    std::string text =
        row[0].get<std::string>() + " " + std::to_string(row[1].get<int>()) + (row[6].get<bool>() ? " beside:" : ":");
    for (const json& need : row[3]) {
      const auto id = std::find(ids.begin(), ids.end(), need[0].get<std::int64_t>()) - ids.begin();
      text += " " + std::to_string(id) + " " + need[1].get<std::string>() + " " + need[2].get<std::string>() +
              (need[3].get<bool>() ? " dropped " : " ") + need[4].dump() + ",";
    }
    moments.push_back(text);
  }
  return moments;
}

/// The same of a rehearsal.
std::vector<std::string> chunks_of(const Rehearsal& step, const ChunkLayout& layout, std::vector<std::int64_t>& ids) {
  std::vector<std::string> chunks;
  std::uint32_t id = 0;
  const auto next_is = [&](const char* kind) {
    ids.push_back(id);
    chunks.push_back(std::string(kind) + ":" + std::to_string(step.problem.chunks.at(ChunkId{id++}).n_bytes));
  };
  for (const ChunkShape& shape : layout.chunks) {
    next_is("payload");
    for (std::uint32_t tile = 0; tile < shape.n_tiles(); ++tile) next_is("state");
  }
  for (std::size_t i = 0; i < layout.chunks.size(); ++i, id += 2) next_is("gradient");
  while (id < step.problem.chunks.size()) next_is("activation");
  return chunks;
}

std::vector<std::string> moments_of(const Rehearsal& step, const std::vector<std::int64_t>& ids) {
  std::vector<std::string> moments;
  for (std::uint64_t m = 0; m < step.trace.n_moments(); ++m)
    moments.push_back(std::string(name(step.trace.moment(m).kind)) + " " + std::to_string(step.trace.moment(m).id) +
                      (step.trace.moment(m).beside ? " beside:" : ":"));
  for (std::size_t i = 0; i < ids.size(); ++i)
    for (const ChunkUse& use : step.problem.chunks[static_cast<ChunkId>(ids[i])].uses)
      moments[use.moment] += " " + std::to_string(i) + " " + name(use.tier) + " " + name(use.access) +
                             (use.dropped ? " dropped " : " ") + std::to_string(use.arriving_bytes) + ",";
  return moments;
}

TEST_P(EstimateMoments, AreThoseThatThePluginRecords) {
  const StateFormat format = {.split_master = true,
                              .keeps_exp_avg_sq = keeps_exp_avg_sq()};  // else the plugin's default
  const ChunkLayout layout = plan_layout(shapes::tensors_of(model_, GetParam().dtype), {kChunkBytes});
  PlacementRequest request;
  request.chunks = demands_of(layout, format);
  request.device_budget_bytes = device_bytes(request.chunks);
  request.largest_unit = estimate::largest_unit(model_, layout);
  request.stream_fraction = GetParam().streamed;
  const StatePlacement placement = plan_placement(request).value();
  const auto iteration =
      estimate::iteration_of(model_, layout, placement, recomputation(),
                             {GetParam().clip, /*overlap_updates=*/true, GetParam().optimizer == CASTOR_LARS,
                              GetParam().optimizer == CASTOR_LAMB},
                             format)
          .value();

  const json trace = record(request.device_budget_bytes);
  std::vector<std::int64_t> ids, own_ids;
  ASSERT_EQ(trace["moments"].size(), iteration.trace.n_moments());
  EXPECT_EQ(chunks_of(trace, ids), chunks_of(iteration, layout, own_ids));
  EXPECT_EQ(moments_of(trace, ids), moments_of(iteration, own_ids));
}

INSTANTIATE_TEST_SUITE_P(
    Gemini, EstimateMoments,
    ::testing::Values(Case{"some_states_on_the_device", true, false, false, false, DType::bf16, 0},
                      Case{"recomputed_and_clipped", true, true, true, false, DType::bf16, 0},
                      Case{"inputs_in_chunks", true, true, true, true, DType::bf16, 0},
                      Case{"untied_all_on_the_device", false, true, false, true, DType::bf16, 1 << 30},
                      Case{"fp32", true, true, true, true, DType::f32, 0},
                      Case{"lars", true, false, false, false, DType::f32, 0, CASTOR_LARS},
                      Case{"lamb_clipped", true, false, true, false, DType::f32, 0, CASTOR_LAMB},
                      Case{"lamb_streamed", true, false, false, false, DType::bf16, 0, CASTOR_LAMB, 0.5},
                      Case{"streamed", true, false, false, false, DType::bf16, 0, CASTOR_ADAMW, 0.5},
                      Case{"streamed_and_clipped", true, true, true, false, DType::bf16, 0, CASTOR_ADAMW, 0.5},
                      Case{"all_streamed", false, false, true, false, DType::f32, 0, CASTOR_ADAMW, 1}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace castor
