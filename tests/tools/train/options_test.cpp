// SPDX-License-Identifier: Apache-2.0
#include "train/options/options.h"

#include <gtest/gtest.h>

namespace castor::train {
namespace {

using Options = std::map<std::string, std::string>;

Result<TrainOptions> read(cli::Arguments arguments) {
  CASTOR_ASSIGN(const cli::Values values, cli::parse(train_syntax(), arguments));
  return read_options(values);
}

Result<TrainOptions> read_mlp(const cli::Arguments& more) {
  cli::Arguments arguments = {"--model", "mlp"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return read(arguments);
}

std::string message_of(const Result<TrainOptions>& options) {
  EXPECT_FALSE(options.ok());
  if (options.ok()) return "";
  EXPECT_EQ(options.error().kind, ErrorKind::usage);
  return options.error().message;
}

TEST(ReadOptions, DefaultsAreThoseOfTheHelp) {
  const TrainOptions options = read_mlp({}).value(), defaults;
  EXPECT_EQ(options.plugin, defaults.plugin);
  EXPECT_EQ(options.steps, defaults.steps);
  EXPECT_EQ(options.batch, defaults.batch);
  EXPECT_EQ(options.seq, defaults.seq);
  EXPECT_EQ(options.lr_schedule.lr, defaults.lr_schedule.lr);
  EXPECT_EQ(options.weight_decay, defaults.weight_decay);
  EXPECT_EQ(options.precision, defaults.precision);
  EXPECT_EQ(options.optimizer, CASTOR_ADAMW);
  EXPECT_FALSE(options.device_budget || options.host_budget || options.recompute || options.deterministic);
}

TEST(ReadOptions, EveryOptionArrives) {
  const std::string line =
      "--model gpt2-124m --data t.txt --plugin none --device cuda --device-budget 3GiB --host-budget 0 --nvme /a,/b "
      "--set x=1=2 --set y= --steps 7 --batch 3 --seq 5 --seed 18446744073709551615 --clip 1.5 --precision fp16 "
      "--optimizer adam --lr 1e-3 --weight-decay 0 --accumulate 4 --threads 2 --recompute --deterministic --trace "
      "t.json";
  const TrainOptions options = read(cli::split(line, ' ')).value();
  EXPECT_EQ(options.model, "gpt2-124m");
  EXPECT_EQ(options.data, "t.txt");
  EXPECT_EQ(options.plugin, "none");
  EXPECT_EQ(options.device, DeviceKind::cuda);
  EXPECT_EQ(options.device_budget, std::optional<std::uint64_t>(3221225472));
  EXPECT_EQ(options.host_budget, std::optional<std::uint64_t>(0));
  EXPECT_EQ(options.nvme, (std::vector<std::filesystem::path>{"/a", "/b"}));
  EXPECT_EQ(options.set, (Options{{"x", "1=2"}, {"y", ""}}));
  EXPECT_EQ(options.steps, 7);
  EXPECT_EQ(options.samples_per_step(), 12);
  EXPECT_EQ(options.seq, 5);
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.clip, 1.5);
  EXPECT_EQ(options.precision, DType::f16);
  EXPECT_EQ(options.optimizer, CASTOR_ADAM);
  EXPECT_EQ(options.lr_schedule.lr, 0.001);
  EXPECT_EQ(options.weight_decay, 0);
  EXPECT_EQ(options.threads, 2);
  EXPECT_TRUE(options.recompute && options.deterministic);
  EXPECT_EQ(options.trace, "t.json");
}

TEST(ReadOptions, AModelMustBeNamed) { EXPECT_EQ(message_of(read({})).rfind("--model is missing;", 0), 0u); }

TEST(ReadOptions, NumbersOutOfRangeAreRefusedByName) {
  EXPECT_EQ(message_of(read_mlp({"--steps", "0"})), "--steps takes a whole number from 1 to 1000000000, not '0'");
  EXPECT_EQ(message_of(read_mlp({"--batch", "two"})), "--batch takes a whole number from 1 to 1000000000, not 'two'");
  EXPECT_EQ(message_of(read_mlp({"--seq", "12x"})), "--seq takes a whole number from 1 to 1000000000, not '12x'");
  EXPECT_EQ(message_of(read_mlp({"--seed=-1"})),
            "--seed takes a whole number from 0 to 18446744073709551615, not '-1'");
  EXPECT_EQ(message_of(read_mlp({"--clip=-1"})), "--clip takes a number of 0 or more, not '-1'");
  EXPECT_EQ(message_of(read_mlp({"--lr", "nan"})), "--lr takes a number of 0 or more, not 'nan'");
}

TEST(ReadOptions, WordsThatAreNotThereAreRefusedByName) {
  EXPECT_EQ(message_of(read_mlp({"--precision", "fp8"})), "--precision takes bf16|fp16|fp32, not 'fp8'");
  EXPECT_EQ(message_of(read_mlp({"--device", "tpu"})), "--device takes cpu|cuda, not 'tpu'");
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "sdg"})), "--optimizer takes adamw|adam|sgd|lars|lamb, not 'sdg'");
}

TEST(ReadOptions, SetTakesPairsAndEachNameOnce) {
  EXPECT_EQ(message_of(read_mlp({"--set", "placement"})), "--set takes name=value, not 'placement'");
  EXPECT_EQ(message_of(read_mlp({"--set", "a=1", "--set", "a=2"})), "--set gives 'a' twice");
}

TEST(ReadOptions, GroupsArriveInTheirOrder) {
  const auto groups = read_mlp({"--group", "*.bias:lr=0,weight_decay=0.5", "--group", "[[:alpha:]]*:betas=0.8/0.95",
                                "--group=vectors:eps=1e-6"})
                          ->groups;
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].selector, "*.bias");
  EXPECT_EQ(groups[0].lr, 0);
  EXPECT_EQ(groups[0].weight_decay, 0.5);
  EXPECT_FALSE(groups[0].betas || groups[0].eps);
  EXPECT_EQ(groups[1].selector, "[[:alpha:]]*");
  EXPECT_EQ(groups[1].betas, std::pair(0.8, 0.95));
  EXPECT_FALSE(groups[1].lr || groups[1].weight_decay);
  EXPECT_EQ(groups[2].selector, kVectors);
  EXPECT_EQ(groups[2].eps, 1e-6);
}

TEST(ReadOptions, GroupsThatSayNothingAreRefused) {
  const std::string takes = "--group takes SELECTOR:name=value[,name=value], as vectors:weight_decay=0, not '";
  for (const std::string text : {"*.bias", "*.bias:", ":lr=1", ""})
    EXPECT_EQ(message_of(read_mlp({"--group", text})), takes + text + "'");
}

TEST(ReadOptions, ValuesOfGroupsAreRefusedByName) {
  const auto refused = [](const std::string& values) { return message_of(read_mlp({"--group", "w:" + values})); };
  EXPECT_EQ(
      refused("weight_deacy=0"),
      "--group w:weight_deacy=0: there is no 'weight_deacy'; a group takes lr, betas, eps and weight_decay; did you "
      "mean 'weight_decay'?");
  EXPECT_EQ(refused("lr=1,lr=2"), "--group w:lr=1,lr=2: lr is given twice");
  EXPECT_EQ(refused("betas=0/0,betas=0/0"), "--group w:betas=0/0,betas=0/0: betas is given twice");
  for (const std::string value : {"-1", "x", "", "nan", "inf", "1/2"})
    EXPECT_EQ(refused("lr=" + value),
              "--group w:lr=" + value + ": lr takes a number of 0 or more, not '" + value + "'");
  for (const std::string value : {"0.9", "0.9/1", "0.9/-0.1", "0.9/0.9/0.9", "/"})
    EXPECT_NE(refused("betas=" + value).find("betas takes two numbers from 0 to below 1"), std::string::npos) << value;
}

TEST(ReadOptions, MomentumIsOfSgd) {
  const TrainOptions options = read_mlp({"--optimizer", "sgd", "--momentum", "0.5", "--nesterov"}).value();
  EXPECT_EQ(options.optimizer, CASTOR_SGD);
  EXPECT_EQ(options.momentum.momentum, 0.5);
  EXPECT_TRUE(options.momentum.nesterov);
  EXPECT_EQ(read_mlp({"--optimizer", "sgd"})->momentum.momentum, 0.9);
  EXPECT_EQ(message_of(read_mlp({"--momentum", "0.5"})),
            "--momentum has no effect with --optimizer adamw; it belongs to sgd and lars");
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "adam", "--nesterov"})),
            "--nesterov has no effect with --optimizer adam; it belongs to sgd and lars");
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "sgd", "--momentum", "1"})),
            "--momentum takes a number from 0 to below 1, not '1'");
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "sgd", "--momentum", "0", "--nesterov"})),
            "--nesterov needs a --momentum above 0");
}

TEST(ReadOptions, TrustIsOfLars) {
  const TrainOptions options = read_mlp({"--optimizer", "lars", "--trust-coefficient", "0.02", "--nesterov"}).value();
  EXPECT_EQ(options.optimizer, CASTOR_LARS);
  EXPECT_EQ(options.momentum.trust_coefficient, 0.02);
  EXPECT_TRUE(options.momentum.nesterov);
  EXPECT_EQ(read_mlp({"--optimizer", "lars"})->momentum.trust_coefficient, 0.001);
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "sgd", "--trust-coefficient", "0.1"})),
            "--trust-coefficient has no effect with --optimizer sgd; it belongs to lars");
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "lars", "--trust-coefficient", "0"})),
            "--trust-coefficient takes a number above 0, not '0'");
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "lars", "--clip-value", "1"})),
            "--clip-value cannot be combined with --optimizer lars, whose trust ratios need the unclipped gradients; "
            "use --clip");
  EXPECT_EQ(
      read_mlp({"--optimizer", "lars", "--group", "vectors:trust_coefficient=0,eps=1e-9"})->groups[0].trust_coefficient,
      0);
}

TEST(ReadOptions, LambHasTheOptionsOfAdam) {
  const auto read = read_mlp({"--optimizer", "lamb", "--moments", "mixed", "--group", "vectors:betas=0.5/0.9,eps=0"});
  EXPECT_EQ(read->optimizer, CASTOR_LAMB);
  EXPECT_EQ(read->groups[0].betas, std::pair(0.5, 0.9));
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "lamb", "--momentum", "0.5"})),
            "--momentum has no effect with --optimizer lamb; it belongs to sgd and lars");
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "lamb", "--trust-coefficient", "0.5"})),
            "--trust-coefficient has no effect with --optimizer lamb; it belongs to lars");
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "lamb", "--clip-value", "1"})),
            "--clip-value cannot be combined with --optimizer lamb, whose trust ratios need the unclipped gradients; "
            "use --clip");
  EXPECT_EQ(
      message_of(read_mlp({"--optimizer", "lamb", "--group", "w:trust_coefficient=0"})),
      "--group w:trust_coefficient=0: there is no 'trust_coefficient'; a group of --optimizer lamb takes lr, betas, "
      "eps and weight_decay");
}

TEST(ReadOptions, SgdHasOneMoment) {
  EXPECT_EQ(read_mlp({"--optimizer", "sgd", "--moments", "bf16"})->moments, MomentFormat::bf16);
  EXPECT_EQ(message_of(read_mlp({"--optimizer", "sgd", "--moments", "mixed"})),
            "--moments mixed needs two moments and --optimizer sgd has one; give fp32 or bf16");
}

TEST(ReadOptions, GroupsTakeTheValuesOfTheirOptimizer) {
  const auto groups = read_mlp({"--optimizer", "sgd", "--group", "vectors:momentum=0,weight_decay=0"})->groups;
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].momentum, 0);
  const auto refused = [](const std::string& optimizer, const std::string& values) {
    return message_of(read_mlp({"--optimizer", optimizer, "--group", "w:" + values}));
  };
  EXPECT_EQ(
      refused("sgd", "betas=0.9/0.9"),
      "--group w:betas=0.9/0.9: there is no 'betas'; a group of --optimizer sgd takes lr, weight_decay and momentum");
  EXPECT_EQ(refused("adamw", "momentum=0.9").rfind("--group w:momentum=0.9: there is no 'momentum'; a group takes", 0),
            0u);
  EXPECT_EQ(refused("sgd", "momentum=1"), "--group w:momentum=1: momentum takes a number from 0 to below 1, not '1'");
}

TEST(ReadOptions, GradientsAreClippedInOneWay) {
  EXPECT_EQ(read_mlp({"--clip-value", "0.5"})->clip_value, 0.5);
  EXPECT_TRUE(read_mlp({"--clip-value", "0", "--clip", "1"}).ok());
  EXPECT_EQ(message_of(read_mlp({"--clip-value", "0.5", "--clip", "1"})),
            "--clip and --clip-value clip the same gradients in two ways; give one of them");
  EXPECT_EQ(message_of(read_mlp({"--clip-value=-1"})), "--clip-value takes a number of 0 or more, not '-1'");
}

TEST(ReadOptions, FoldersAreNotEmpty) {
  EXPECT_NE(message_of(read_mlp({"--nvme", "/a,,/b"})), "");
  EXPECT_NE(message_of(read_mlp({"--nvme="})), "");
}

TEST(ReadOptions, CheckpointsAreFolders) {
  const auto options = read_mlp({"--resume", "a", "--checkpoint", "b", "--checkpoint-every", "7"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(folders_text(options->resume), "a");
  EXPECT_EQ(options->checkpoint, (std::vector<std::filesystem::path>{"b"}));
  EXPECT_EQ(options->checkpoint_every, 7);
  EXPECT_EQ(message_of(read_mlp({"--resume", ""})), "--resume names no folder");
  EXPECT_EQ(message_of(read_mlp({"--checkpoint-every", "7"})),
            "--checkpoint-every needs --checkpoint DIR or --durability commit");
  EXPECT_NE(message_of(read_mlp({"--checkpoint", "b", "--checkpoint-every", "0"})), "");
}

TEST(ReadOptions, WithDurabilityCommitTheFoldersOfNvmeAreTheCheckpoint) {
  const auto options =
      read_mlp({"--nvme", "a,b", "--durability", "commit", "--checkpoint-every", "7", "--resume", "a,b"});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->commit_nvme);
  EXPECT_EQ(folders_text(options->saved_in()), "a,b");
  EXPECT_EQ(options->resume, options->nvme);
  EXPECT_EQ(plugin_options(*options, "gemini", {"nvme", "durability"}).value(),
            (Options{{"nvme", "a,b"}, {"durability", "commit"}}));
  EXPECT_FALSE(read_mlp({"--nvme", "a"})->commit_nvme);
  EXPECT_TRUE(read_mlp({"--nvme", "a"})->saved_in().empty());
}

TEST(ReadOptions, DurabilityCommitIsRefusedWhereItCannotBe) {
  EXPECT_EQ(message_of(read_mlp({"--durability", "commit"})),
            "--durability commit keeps the run in the folders of --nvme; name one");
  EXPECT_EQ(message_of(read_mlp({"--durability", "commit", "--nvme", "a", "--checkpoint", "b"})),
            "--durability commit saves the run in the folders of --nvme; leave --checkpoint out");
  EXPECT_NE(message_of(read_mlp({"--durability", "always"})), "");
  EXPECT_EQ(message_of(read_mlp({"--resume", "a,,b"})),
            "--resume takes folders separated by commas, and one of them is empty");
  TrainOptions options;
  options.set = {{"durability", "commit"}};
  EXPECT_EQ(plugin_options(options, "gemini", {"durability"}).error().message,
            "--set durability=: use --durability, which also saves the run");
}

TEST(PluginOptions, FlagsBecomeOptionsOfThePlugin) {
  TrainOptions options;
  options.device_budget = 4096;
  options.host_budget = 8192;
  options.nvme = {"/a", "/b"};
  options.set = {{"placement_policy", "cpu"}};
  const Options expected = {
      {"device_budget", "4096"}, {"host_budget", "8192"}, {"nvme", "/a,/b"}, {"placement_policy", "cpu"}};
  EXPECT_EQ(plugin_options(options, "gemini", {"nvme", "host_budget", "device_budget"}).value(), expected);
}

TEST(PluginOptions, ThreadsAreThoseOfUpdatesTooWhereThePluginHasAny) {
  TrainOptions options;
  options.threads = 3;
  EXPECT_EQ(plugin_options(options, "gemini", {"update_threads"}).value(), (Options{{"update_threads", "3"}}));
  EXPECT_EQ(plugin_options(options, "none", {}).value(), Options());
  options.set = {{"update_threads", "2"}};
  EXPECT_EQ(plugin_options(options, "gemini", {"update_threads"}).value(), (Options{{"update_threads", "2"}}));
}

TEST(PluginOptions, TheStatesToKeepFollowFromTheOptimizer) {
  TrainOptions options;
  options.set = {{"optimizer", "adam"}};
  EXPECT_EQ(plugin_options(options, "gemini", {"optimizer"}).error().message,
            "--optimizer and --set optimizer= set the same option; give one of them");
}

TEST(PluginOptions, AFlagThePluginDoesNotKnowIsRefusedByName) {
  TrainOptions options;
  options.host_budget = 1;
  const auto result = plugin_options(options, "minimal", {"device_budget"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "--host-budget has no effect here: plugin 'minimal' has no option 'host_budget'");
}

TEST(PluginOptions, TheSameThingTwiceIsRefused) {
  TrainOptions options;
  options.nvme = {"/a"};
  options.set = {{"nvme", "/b"}};
  const auto result = plugin_options(options, "gemini", {"nvme"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace castor::train
