// SPDX-License-Identifier: Apache-2.0
#include "plugin_checks.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace castor {
namespace {

castor_status create(const castor_host_v1*, const castor_option_value*, std::size_t, const castor_strategy_v1**) {
  return CASTOR_FAILED;
}

castor_plugin_info sound() {
  castor_plugin_info info{};
  info.magic = CASTOR_PLUGIN_MAGIC;
  info.struct_size = sizeof info;
  info.abi_major = CASTOR_ABI_MAJOR;
  info.abi_minor = CASTOR_ABI_MINOR;
  info.capabilities = CASTOR_CAP_CPU | CASTOR_CAP_LINKS_TORCH;
  info.build_tag = "torch-2.13.0";
  info.name = "sound";
  info.version = "1";
  info.summary = "";
  info.create = create;
  return info;
}

struct Flaw {
  const char* sentence;  // a part of it that no other refusal has
  std::function<void(castor_plugin_info&)> make;
};

TEST(PluginChecks, AcceptsASoundDescription) { EXPECT_TRUE(check_plugin_info(sound(), "torch-2.13.0").ok()); }

TEST(PluginChecks, AcceptsALargerDescription) {
  auto info = sound();
  info.struct_size += 64;
  EXPECT_TRUE(check_plugin_info(info, "torch-2.13.0").ok());
}

TEST(PluginChecks, RefusesALibTorchPluginWhereThereIsNone) {
  EXPECT_EQ(
      check_plugin_info(sound(), "").error().message,
      "it was built for LibTorch 'torch-2.13.0', this host has no LibTorch; rebuild it against the same LibTorch");
}

TEST(PluginChecks, AnEmptyTagNeverMatches) {
  auto info = sound();
  info.build_tag = "";
  EXPECT_FALSE(check_plugin_info(info, "").ok());
  info.build_tag = nullptr;
  EXPECT_FALSE(check_plugin_info(info, "").ok());
}

/// A description with all flaws at once shows the first; each one mended brings up the next.
TEST(PluginChecks, ComeInTheOrderOfTheContract) {
  const std::vector<Flaw> flaws = {
      {"magic number is 0x7", [](auto& info) { info.magic = 7; }},
      {"description has 8 bytes, version 1.0 has 72", [](auto& info) { info.struct_size = 8; }},
      {"speaks plugin ABI 2, this host speaks 1", [](auto& info) { info.abi_major = 2; }},
      {"needs plugin ABI 1.13, this host offers 1.12", [](auto& info) { info.abi_minor = 13; }},
      {"capabilities 0x8000, this host knows 0x7", [](auto& info) { info.capabilities |= 0x8000; }},
      {"LibTorch 'torch-1', this host runs with 'torch-2.13.0'", [](auto& info) { info.build_tag = "torch-1"; }},
      {"lacks a name", [](auto& info) { info.name = nullptr; }},
      {"no create function", [](auto& info) { info.create = nullptr; }},
      {"declares 3 options but lists none", [](auto& info) { info.n_options = 3; }},
  };
  for (std::size_t n_mended = 0; n_mended < flaws.size(); ++n_mended) {
    auto info = sound();
    for (std::size_t i = n_mended; i < flaws.size(); ++i) flaws[i].make(info);
    const auto checked = check_plugin_info(info, "torch-2.13.0");
    ASSERT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().kind, ErrorKind::plugin);
    EXPECT_NE(checked.error().message.find(flaws[n_mended].sentence), std::string::npos) << checked.error().message;
  }
}

}  // namespace
}  // namespace castor
