// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <nlohmann/json.hpp>

#include <ostream>

#include "cli/words.h"

namespace castor::cli {
namespace {

/// Text from file names may not be UTF-8: such bytes are replaced rather than refused.
std::string to_line(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void Output::line(const std::string& text) {
  if (!json_) out_ << text << '\n' << std::flush;
}

void Output::note(const std::string& text) { err_ << worded(text) << '\n' << std::flush; }

void Output::result(const nlohmann::json& object) {
  if (json_) out_ << to_line(object) << '\n' << std::flush;
}

int Output::fail(const Error& error) { return fail(error, nlohmann::json::object()); }

int Output::fail(const Error& error, const nlohmann::json& details) {
  const int code = static_cast<int>(error.kind);
  note("castor: " + error.message);
  nlohmann::json object = details;
  object["error"] = {{"code", code}, {"kind", name(error.kind)}, {"message", worded(error.message)}};
  result(object);
  return code;
}

nlohmann::json or_null(const std::optional<double>& value) { return value ? nlohmann::json(*value) : nlohmann::json(); }

}  // namespace castor::cli
