// SPDX-License-Identifier: Apache-2.0
#include "cli/words.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sstream>

#include "cli/output.h"

namespace castor::cli {
namespace {

TEST(Worded, OptionsInBackquotesBecomeTheirFlags) {
  EXPECT_EQ(worded("raise `host_budget` to 5.00 GiB or name a folder with `nvme`"),
            "raise --host-budget to 5.00 GiB or name a folder with --nvme");
  EXPECT_EQ(worded("`resume_from` a: it holds the moments of sgd, `optimizer` adamw continues from those of adam"),
            "--resume a: it holds the moments of sgd, --optimizer adamw continues from those of adam");
  EXPECT_EQ(worded("`groups` *.bais: selects none"), "--group *.bais: selects none");
  EXPECT_EQ(worded("lower `batch`, use `recompute` or raise `device_budget`"),
            "lower --batch, use --recompute or raise --device-budget");
  EXPECT_EQ(worded("choose another `device` or another plugin"), "choose another --device or another plugin");
  EXPECT_EQ(worded("choose `precision` bf16"), "choose --precision bf16");
  EXPECT_EQ(worded("raise `const_device_bytes` to 8 MiB"), "raise const_device_bytes to 8 MiB");
  EXPECT_EQ(worded("`tune` writes it anew"), "`castor bench io --tune` writes it anew");
}

TEST(Worded, EverythingElseStays) {
  for (const char* text : {"", "no option", "`castor plugins list` shows those that are found", "`", "a `device", "``",
                           "host_budget without quotes", "`host budget`"})
    EXPECT_EQ(worded(text), text);
}

TEST(Worded, EveryErrorOfACommandIs) {
  std::ostringstream out, err;
  Output output(out, err, true);
  output.fail({ErrorKind::usage, "a store needs a folder; name one with `nvme`", "nvme"});
  EXPECT_EQ(err.str(), "castor: a store needs a folder; name one with --nvme\n");
  EXPECT_EQ(nlohmann::json::parse(out.str())["error"]["message"], "a store needs a folder; name one with --nvme");
}

}  // namespace
}  // namespace castor::cli
