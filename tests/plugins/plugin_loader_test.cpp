// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/plugin_loader.h>
#include <castor/version.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "../support/scratch_folder.h"

namespace castor {
namespace {

namespace fs = std::filesystem;

const fs::path kStubs = STUB_DIR;
const fs::path kMinimalC = MINIMAL_C;

/// Sets CASTOR_PLUGIN_PATH for one test.
class PluginPath {
 public:
  explicit PluginPath(const std::string& value) { setenv("CASTOR_PLUGIN_PATH", value.c_str(), 1); }
  ~PluginPath() { unsetenv("CASTOR_PLUGIN_PATH"); }
};

PluginLoader loader_of_stubs(std::string build_tag = "torch-2.13.0+cpu") {
  return PluginLoader(std::move(build_tag), {kStubs});
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- refusals: each stub is wrong in one way, and its create aborts if it runs ----

struct Refusal {
  const char* stub;
  const char* sentence;
};

class PluginLoaderRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(PluginLoaderRefuses, WithItsOwnSentence) {
  const fs::path path = kStubs / (std::string("libcastor_stub_") + GetParam().stub + ".so");
  const auto loaded = loader_of_stubs().load(path.string());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::plugin);
  EXPECT_EQ(loaded.error().message.find(path.string() + ": " + GetParam().sentence), 0u) << loaded.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Stubs, PluginLoaderRefuses,
    ::testing::Values(
        Refusal{"absent", "there is no such file; `castor plugins list` shows those that are found"},
        Refusal{"not_elf", "is not a shared object (it has no ELF header); a plugin is built as libcastor_NAME.so"},
        Refusal{"unloadable", "cannot be loaded: "},
        Refusal{"no_symbol", "exports no castor_plugin_query_v2; it is a library but not a Castor plugin"},
        Refusal{"null_query", "castor_plugin_query_v2 returned no description; the plugin must be corrected"},
        Refusal{"wrong_magic", "its magic number is 0x4d414749, a Castor plugin has 0x43535452; rebuild it"},
        Refusal{"small_size", "its description has 24 bytes, version 2.0 has 80; rebuild it"},
        Refusal{"other_major", "it speaks plugin ABI 3, this host speaks 2; rebuild it"},
        Refusal{"newer_minor", "it speaks plugin ABI 2.7, this host speaks 2.0; rebuild it"},
        Refusal{"unknown_capability",
                "it needs the capabilities 0x10000000000, this host knows 0x3f and no others; use a newer Castor"},
        Refusal{"other_torch",
                "it was built for LibTorch 'torch-1.0.0+cpu', this host runs with 'torch-2.13.0+cpu'; rebuild it"},
        Refusal{"other_castor", "it was built for libcastor '0.0.1', this host runs with '" CASTOR_VERSION
                                "'; rebuild it against the same libcastor"},
        Refusal{"no_name", "it lacks a name, a version or a summary"},
        Refusal{"no_create", "it offers no create function"},
        Refusal{"lost_options", "it declares 2 options but lists none"},
        Refusal{"twin_options", "its option 1 ('depth') carries the name of an earlier one"},
        Refusal{"bad_default",
                "its option 0 ('depth') refuses its own default: option 'depth': '9' is out of range; it takes a whole "
                "number from 0 to 8"}),
    [](const auto& info) { return std::string(info.param.stub); });

TEST(PluginLoader, NamesTheSymbolThatTheLinkerMissed) {
  const auto loaded = loader_of_stubs().load("stub_unloadable");
  ASSERT_FALSE(loaded.ok());
  EXPECT_TRUE(contains(loaded.error().message, "castor_stub_defined_nowhere")) << loaded.error().message;
}

TEST(PluginLoader, RefusesAFolder) {
  const auto loaded = loader_of_stubs().load(kStubs.string() + "/");
  ASSERT_FALSE(loaded.ok());
  EXPECT_TRUE(contains(loaded.error().message, "is not a file; name the libcastor_*.so itself"))
      << loaded.error().message;
}

// ---- accepted plugins ----

TEST(PluginLoader, AcceptsALibTorchPluginWithTheHostsTag) {
  EXPECT_TRUE(loader_of_stubs("torch-1.0.0+cpu").load("stub_other_torch").ok());
}

TEST(PluginLoader, TheBuildTagBindsOnlyPluginsThatLinkLibTorch) {
  EXPECT_TRUE(loader_of_stubs().load("stub_other_tag_without_torch").ok());
}

TEST(PluginLoader, LoadsByPath) {
  const auto loaded = PluginLoader("", {"/nowhere"}).load(kMinimalC.string());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_STREQ(loaded->info->name, "minimal_c");
  EXPECT_EQ(loaded->path, kMinimalC);
}

// ---- the search path ----

TEST(PluginLoader, SearchesThePluginPathBeforeLibdir) {
  const PluginPath variable("/nowhere::" + kMinimalC.parent_path().string());
  const auto from_variable = loader_of_stubs().load("minimal_c");
  ASSERT_TRUE(from_variable.ok()) << from_variable.error().message;
  EXPECT_EQ(from_variable->path, kMinimalC);
  EXPECT_EQ(loader_of_stubs().load("stub_recorder").value().path, kStubs / "libcastor_stub_recorder.so");
}

TEST(PluginLoader, TheFirstFolderWins) {
  const fs::path folder = fs::path(::testing::TempDir()) / "castor_first_folder";
  fs::create_directories(folder);
  std::ofstream(folder / "libcastor_stub_recorder.so") << "text";
  const PluginPath variable(folder.string());
  const auto loaded = loader_of_stubs().load("stub_recorder");
  fs::remove_all(folder);
  ASSERT_FALSE(loaded.ok());
  EXPECT_TRUE(
      contains(loaded.error().message, (folder / "libcastor_stub_recorder.so").string() + ": is not a shared object"))
      << loaded.error().message;
}

TEST(PluginLoader, AnUnknownNameListsThoseFoundAndTheFolders) {
  const PluginPath variable("/nowhere:" + kMinimalC.parent_path().string());
  const auto loaded = PluginLoader("", {"/lost"}).load("minimalc");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::plugin);
  EXPECT_EQ(
      loaded.error().message,
      "there is no plugin 'minimalc', did you mean 'minimal_c'?; found minimal_c in /nowhere (no such folder), " +
          kMinimalC.parent_path().string() +
          " and /lost (no such folder); name one of them, a file with its path, or a folder in CASTOR_PLUGIN_PATH");
}

TEST(PluginLoader, SaysThatNothingWasFound) {
  EXPECT_EQ(PluginLoader("", {"/lost"}).load("gemini").error().message,
            "there is no plugin 'gemini'; none was found in /lost (no such folder); name one of them, a file with its "
            "path, or a folder in CASTOR_PLUGIN_PATH");
}

// ---- the list ----

TEST(PluginLoader, ListsEveryStubAcceptedOrRefused) {
  const std::set<std::string> sound = {"cuda_only",  "create_fails", "create_silent",           "lacks_step",
                                       "lacks_wait", "no_strategy",  "other_tag_without_torch", "recorder",
                                       "short_table"};
  std::size_t n_refused = 0;
  std::set<std::string> accepted;
  for (const PluginListing& listing : loader_of_stubs().list()) {
    if (listing.plugin.ok()) {
      accepted.insert(std::string(listing.plugin->info->name).substr(sizeof "stub_" - 1));
    } else {
      ++n_refused;
      EXPECT_TRUE(contains(listing.plugin.error().message, listing.path.string()));
    }
  }
  EXPECT_EQ(accepted, sound);
  EXPECT_EQ(n_refused, 16u);  // the refusals above without `absent`
}

TEST(PluginLoader, ListsAFolderOnceAndNoOtherFiles) {
  const fs::path folder = fs::path(::testing::TempDir()) / "castor_list_folder";
  fs::create_directories(folder / "libcastor_folder.so");
  for (const char* file :
       {"libcastor.so", "libcastor_.so", "libcastor_torch.so", "libother.so", "libcastor_x.so.1", "libcastor_text.so"})
    std::ofstream(folder / file) << "text";
  const PluginPath variable(folder.string() + ":" + folder.string());
  const auto listings = PluginLoader("", {folder}).list();
  fs::remove_all(folder);
  ASSERT_EQ(listings.size(), 1u);
  EXPECT_EQ(listings[0].path, folder / "libcastor_text.so");
}

/// A file that was cut short would end the process with SIGBUS where its missing pages are touched.
TEST(PluginFiles, EmptyOrCutShortAreRefusedBeforeTheyAreMapped) {
  const test::ScratchFolder folder;
  const fs::path whole = kMinimalC, copy = fs::path(folder.path()) / "libcastor_copy.so";
  const auto n_bytes = fs::file_size(whole);
  for (std::uintmax_t size = 0; size < n_bytes; size += size < 4096 ? 509 : 4093) {
    fs::copy_file(whole, copy, fs::copy_options::overwrite_existing);
    fs::resize_file(copy, size);
    const auto loaded = loader_of_stubs().load(copy.string());
    if (size >= 4096 && loaded.ok())
      break;  // all that is mapped is there; what follows only linkers and debuggers read
    ASSERT_FALSE(loaded.ok()) << size;
    const std::string& why = loaded.error().message;
    const bool told = size == 0 ? contains(why, "is empty; copy it here again")
                                : contains(why, "is cut short: it has " + std::to_string(size) + " bytes of the ");
    EXPECT_TRUE(told || contains(why, "cannot be loaded: ")) << size << ": " << why;
    EXPECT_TRUE(told || size > n_bytes / 2) << size << ": " << why;
    fs::remove(copy);
  }
}

}  // namespace
}  // namespace castor
