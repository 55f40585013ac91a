// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <ostream>
#include <string_view>
#include <system_error>

#include "cli/interrupt.h"
#include "cli/words.h"

namespace castor::cli {
namespace {

/// Text from file names may not be UTF-8: such bytes are replaced rather than refused.
std::string to_line(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The message, with the signal in place of the person who stopped the work.
std::string by_signal(const Error& error) {
  constexpr std::string_view kByUser = "stopped by the user";
  const StopSignal* const signal = stop_signal();
  if (signal == nullptr || error.message.rfind(kByUser, 0) != 0) return error.message;
  return std::string("stopped by ") + signal->name + error.message.substr(kByUser.size());
}

}  // namespace

void Output::print(const std::string& text) {
  errno = 0;
  out_ << text << '\n' << std::flush;
  note_loss();
}

/// Right after a write: keeps the reason of the first that failed.
void Output::note_loss() {
  if (!out_ && lost_ == 0) lost_ = errno != 0 ? errno : EIO;
}

void Output::line(const std::string& text) {
  if (!json_) print(text);
}

void Output::note(const std::string& text) { err_ << worded(text) << '\n' << std::flush; }

void Output::result(const nlohmann::json& object) {
  if (json_) print(to_line(object));
}

int Output::fail(const Error& error) { return fail(error, nlohmann::json::object()); }

int Output::fail(const Error& error, const nlohmann::json& details) {
  const int code = error.kind == ErrorKind::interrupted ? stopped_code() : static_cast<int>(error.kind);
  const std::string message = by_signal(error);
  note("castor: " + message);
  nlohmann::json object = details;
  object["error"] = {{"code", code}, {"kind", name(error.kind)}, {"message", worded(message)}};
  result(object);
  return code;
}

int Output::ended(int code) {
  out_.flush();
  note_loss();
  if (lost_ == 0) return code;
  note("castor: the result cannot be written to the standard output: " + std::generic_category().message(lost_) +
       "; it is lost, and so is what follows it");
  return code == 0 ? static_cast<int>(ErrorKind::io) : code;
}

nlohmann::json or_null(const std::optional<double>& value) { return value ? nlohmann::json(*value) : nlohmann::json(); }

}  // namespace castor::cli
