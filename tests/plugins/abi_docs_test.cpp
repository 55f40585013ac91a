// SPDX-License-Identifier: Apache-2.0
// docs/plugin_abi.md names every function of every list, and no other, with the states in which it may be called.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sdk/call_order.h"
#include "sdk/call_rows.h"

namespace castor {
namespace {

using sdk::CallRow;
using Cells = std::vector<std::string>;

constexpr CallRow kHostRows[] = {
#include "sdk/as_rows.inc"
#include <castor/plugins/abi/model.inc>
#include "sdk/as_rows.inc"
#include <castor/plugins/abi/device.inc>
#include "sdk/as_rows.inc"
#include <castor/plugins/abi/groups.inc>
#include "sdk/as_rows.inc"
#include <castor/plugins/abi/stages.inc>
};

std::map<std::string, CallStates> strategy_functions() {
  std::map<std::string, CallStates> found;
  for (const CallRow& row : sdk::kStepRows) found.emplace(row.name, row.need.states);
  for (const CallRow& row : sdk::kValueRows) found.emplace(row.name, row.need.states);
  for (const CallRow& row : sdk::kCommitRows) found.emplace(row.name, row.need.states);
  for (const CallRow& row : sdk::kActivationRows) found.emplace(row.name, row.need.states);
  return found;
}

/// The rows of the table in the page whose first line is `heading`.
std::vector<Cells> table(const std::string& heading) {
  std::ifstream page(PLUGIN_ABI_MD);
  std::vector<Cells> rows;
  std::string line;
  while (std::getline(page, line) && line != heading) {
  }
  std::getline(page, line);  // the rule below the heading
  while (std::getline(page, line) && line.starts_with("|")) {
    std::istringstream cells(line.substr(1));
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '|');) rows.back().push_back(cell);
  }
  return rows;
}

/// The names in backquotes.
std::vector<std::string> names_in(const std::string& cell) {
  std::vector<std::string> names;
  for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
    const std::size_t end = cell.find('`', at + 1);
    names.push_back(cell.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

TEST(AbiPage, NamesEachFunctionOfTheStrategyOnceWithItsStates) {
  std::map<std::string, CallStates> missing = strategy_functions();
  for (const Cells& row : table("| function | states | collective | may wait | null means |"))
    for (const std::string& name : names_in(row.at(0))) {
      ASSERT_TRUE(missing.contains(name)) << name << " is no function, or is named twice";
      EXPECT_EQ(row.at(1), " " + sdk::spelled(missing.at(name)) + " ") << name;
      missing.erase(name);
    }
  for (const auto& [name, states] : missing) ADD_FAILURE() << name << " is not on the page";
}

TEST(AbiPage, NamesEachFunctionOfTheHostOnce) {
  std::set<std::string> missing;
  for (const CallRow& row : kHostRows) missing.emplace(row.name);
  for (const Cells& row : table("| list | function | threads |"))
    for (const std::string& name : names_in(row.at(1))) EXPECT_EQ(missing.erase(name), 1u) << name;
  for (const std::string& name : missing) ADD_FAILURE() << name << " is not on the page";
}

TEST(AbiPage, NamesEachState) {
  const auto rows = table("| state | is |");
  ASSERT_EQ(rows.size(), kNCallStates);
  for (std::uint32_t i = 0; i < kNCallStates; ++i)
    EXPECT_EQ(rows[i].at(0), " " + sdk::spelled(during::only(static_cast<CallState>(i))) + " ");
}

}  // namespace
}  // namespace castor
