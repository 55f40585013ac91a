// SPDX-License-Identifier: Apache-2.0
#include "plugin_checks.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace castor {
namespace {

castor_status create(const castor_host_v2*, const castor_option_value* const*, std::size_t,
                     const castor_strategy_v2**) {
  return CASTOR_FAILED;
}

castor_plugin_info sound() {
  castor_plugin_info info{};
  info.magic = CASTOR_PLUGIN_MAGIC;
  info.struct_size = sizeof info;
  info.abi_major = CASTOR_ABI_MAJOR;
  info.abi_minor = CASTOR_ABI_MINOR;
  info.capabilities = CASTOR_CAP_CPU | CASTOR_CAP_LINKS_TORCH | CASTOR_CAP_LINKS_CASTOR;
  info.torch_tag = "torch-2.13.0";
  info.castor_tag = "1.2";
  info.name = "sound";
  info.version = "1";
  info.summary = "";
  info.create = create;
  return info;
}

const HostTags kHost = {"torch-2.13.0", "1.2"};

struct Flaw {
  const char* sentence;  // a part of it that no other refusal has
  std::function<void(castor_plugin_info&)> make;
};

TEST(PluginChecks, AcceptsASoundDescription) { EXPECT_TRUE(check_plugin_info(sound(), kHost).ok()); }

TEST(PluginChecks, AcceptsALargerDescription) {
  auto info = sound();
  info.struct_size += 64;
  EXPECT_TRUE(check_plugin_info(info, kHost).ok());
}

TEST(PluginChecks, RefusesALibTorchPluginWhereThereIsNone) {
  EXPECT_EQ(
      check_plugin_info(sound(), {"", "1.2"}).error().message,
      "it was built for LibTorch 'torch-2.13.0', this host has no LibTorch; rebuild it against the same LibTorch");
}

TEST(PluginChecks, AnEmptyTagNeverMatches) {
  auto info = sound();
  info.torch_tag = "";
  EXPECT_FALSE(check_plugin_info(info, {"", "1.2"}).ok());
  info.torch_tag = nullptr;
  EXPECT_FALSE(check_plugin_info(info, {"", "1.2"}).ok());
}

/// A description with all flaws at once shows the first; each one mended brings up the next.
TEST(PluginChecks, ComeInTheOrderOfTheContract) {
  const std::vector<Flaw> flaws = {
      {"magic number is 0x7", [](auto& info) { info.magic = 7; }},
      {"description has 8 bytes, version 2.0 has 80", [](auto& info) { info.struct_size = 8; }},
      {"speaks plugin ABI 3, this host speaks 2", [](auto& info) { info.abi_major = 3; }},
      {"speaks plugin ABI 2.13, this host speaks 2.0", [](auto& info) { info.abi_minor = 13; }},
      {"capabilities 0x8000, this host knows 0x3f", [](auto& info) { info.capabilities |= 0x8000; }},
      {"LibTorch 'torch-1', this host runs with 'torch-2.13.0'", [](auto& info) { info.torch_tag = "torch-1"; }},
      {"libcastor '1.1', this host runs with '1.2'", [](auto& info) { info.castor_tag = "1.1"; }},
      {"lacks a name", [](auto& info) { info.name = nullptr; }},
      {"no create function", [](auto& info) { info.create = nullptr; }},
      {"declares 3 options but lists none", [](auto& info) { info.n_options = 3; }},
  };
  for (std::size_t n_mended = 0; n_mended < flaws.size(); ++n_mended) {
    auto info = sound();
    for (std::size_t i = n_mended; i < flaws.size(); ++i) flaws[i].make(info);
    const auto checked = check_plugin_info(info, kHost);
    ASSERT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().kind, ErrorKind::plugin);
    EXPECT_NE(checked.error().message.find(flaws[n_mended].sentence), std::string::npos) << checked.error().message;
  }
}

}  // namespace
}  // namespace castor
