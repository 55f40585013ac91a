// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <sstream>

namespace castor::cli {
namespace {

using nlohmann::json;

TEST(Output, PeopleGetLinesAndNoJson) {
  std::ostringstream out, err;
  Output output(out, err, false);
  output.line("hello");
  output.result({{"a", 1}});
  EXPECT_EQ(out.str(), "hello\n");
}

TEST(Output, ScriptsGetOneObjectAndNoLines) {
  std::ostringstream out, err;
  Output output(out, err, true);
  output.line("hello");
  output.result({{"a", 1}});
  EXPECT_EQ(out.str(), "{\"a\":1}\n");
}

TEST(Output, FailureIsASentenceAndAnObject) {
  std::ostringstream out, err;
  Output output(out, err, true);
  EXPECT_EQ(output.fail({ErrorKind::does_not_fit, "too large"}, {{"losses", {2.5}}}), 3);
  EXPECT_EQ(err.str(), "castor: too large\n");
  EXPECT_EQ(json::parse(out.str()),
            json::parse(R"({"error": {"code": 3, "kind": "does_not_fit", "message": "too large"}, "losses": [2.5]})"));
}

TEST(Output, FailureWithoutJsonLeavesStdoutAlone) {
  std::ostringstream out, err;
  Output output(out, err, false);
  EXPECT_EQ(output.fail({ErrorKind::interrupted, "stopped"}), 130);
  EXPECT_EQ(out.str(), "");
}

TEST(Output, NumbersThatAreNoneBecomeNull) {
  std::ostringstream out, err;
  Output output(out, err, true);
  output.result({{"loss", std::nan("")}});
  EXPECT_EQ(out.str(), "{\"loss\":null}\n");
}

TEST(Output, NamesThatAreNotUtf8DoNotEndTheProgram) {
  std::ostringstream out, err;
  Output output(out, err, true);
  output.result({{"path",
                  "a\xff"
                  "b"}});
  EXPECT_EQ(json::parse(out.str())["path"],
            "a\xef\xbf\xbd"
            "b");
}

}  // namespace
}  // namespace castor::cli
