// SPDX-License-Identifier: Apache-2.0
#include "store/store_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/store_format.h"
#include "../../support/scratch_folder.h"

namespace castor::test {
namespace {

class StoreFilesTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  /// Makes a store without values whose data file has this name and exists.
  void make_store(const std::string& data_name) {
    Manifest manifest;
    manifest.step = 1;
    manifest.store_id = 0x0123456789abcdef;
    manifest.block_bytes = 4096;
    manifest.volumes = {{data_name, 1, 0}};
    ASSERT_TRUE(ops_.write_file(path(data_name), {}).ok());
    ASSERT_TRUE(ops_.write_file(path(kManifestName), encode_manifest(manifest)).ok());
  }

  ScratchFolder folder_;
  SystemFolderOps ops_;
};

TEST_F(StoreFilesTest, AManifestOpensItsDataFile) {
  make_store("castor-0123456789abcdef-0.data");
  const auto files = StoreFiles::open({folder_.path()}, ops_);
  ASSERT_TRUE(files.ok()) << files.error().message;
  EXPECT_EQ(files.value()->names(), (std::vector<std::string>{"castor-0123456789abcdef-0.data"}));
}

TEST_F(StoreFilesTest, AManifestThatNamesOtherFilesIsRefused) {
  for (const char* name :
       {"diary.txt", "castor.manifest", "castor-0123456789abcdef-1.data", "castor-fedcba9876543210-0.data"}) {
    make_store(name);
    const auto refused = StoreFiles::open({folder_.path()}, ops_);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::io);
    EXPECT_EQ(refused.error().message,
              path(kManifestName) + " calls its data file " + name +
                  ", which a store would call castor-0123456789abcdef-0.data; restore a copy of the store's files, or "
                  "remove that manifest to start anew");
  }
}

}  // namespace
}  // namespace castor::test
