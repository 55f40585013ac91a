// SPDX-License-Identifier: Apache-2.0
#include <castor/training/plugin_folders.h>

#include <gtest/gtest.h>

#include <fstream>

#include "../support/scratch_folder.h"

namespace castor {
namespace {

namespace fs = std::filesystem;
using Folders = std::vector<fs::path>;

void touch(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "";
}

TEST(PluginFolders, InABuildTreeEachPluginIsInAFolderOfItsName) {
  const test::ScratchFolder scratch;
  const fs::path plugins = fs::path(scratch.path()) / "plugins";
  touch(plugins / "gemini/libcastor_gemini.so");
  touch(plugins / "minimal_c/libcastor_minimal_c.so");
  touch(plugins / "gemini.p/libcastor_gemini.so");
  touch(plugins / "engine/libcastor_engine.a");
  EXPECT_EQ(plugin_folders_beside(plugins), (Folders{plugins / "gemini", plugins / "minimal_c"}));
}

TEST(PluginFolders, AnInstalledTreeMayBeMoved) {
  const test::ScratchFolder scratch;
  const fs::path root = scratch.path();
  touch(root / "usr/lib/castor/libcastor_gemini.so");
  touch(root / "usr/lib/other/libcastor_other.so");
  EXPECT_EQ(plugin_folders_beside(root / "usr/lib"), Folders{root / "usr/lib/castor"});
  fs::rename(root / "usr", root / "opt");
  EXPECT_EQ(plugin_folders_beside(root / "opt/lib"), Folders{root / "opt/lib/castor"});
}

TEST(PluginFolders, WhereThereAreNoneTheMessageCanNameThePlace) {
  const test::ScratchFolder scratch;
  EXPECT_EQ(plugin_folders_beside(scratch.path()), Folders{fs::path(scratch.path()) / "castor"});
}

TEST(PluginFolders, ThisLibraryFindsThoseOfItsBuildTree) {
  bool found = false;
  for (const fs::path& folder : plugin_folders()) found |= fs::exists(folder / "libcastor_gemini.so");
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace castor
