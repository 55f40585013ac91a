// SPDX-License-Identifier: Apache-2.0
#include <castor/memprof/trace_file.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <castor/memory/json_bounds.h>

namespace castor {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;

/// Removes the tag in front of nlohmann's messages, `[json.exception.type_error.302] `, which does not help a user.
std::string without_tag(const std::string& text) {
  const auto end = text.find("] ");
  return text.rfind('[', 0) == 0 && end != std::string::npos ? text.substr(end + 2) : text;
}

Error not_a_trace(const std::string& origin, const std::string& why) {
  return {ErrorKind::failed, "'" + origin + "' is not a trace that this version can read: " + why +
                                 "; a training writes one with `trace`"};
}

}  // namespace

Result<void> parse_trace_file(std::string_view text, const std::string& origin,
                              const std::function<void(const json&)>& read) {
  if (const auto why = json_out_of_bounds(text)) return not_a_trace(origin, *why);
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) return not_a_trace(origin, "it is not JSON");
  if (!object.is_object() || !object.contains("castor_trace"))
    return not_a_trace(origin, "it has no field castor_trace");
  if (object["castor_trace"] != kFormatVersion) return not_a_trace(origin, "its format is not 1");
  try {
    read(object);
  } catch (const std::exception& e) {
    return not_a_trace(origin, without_tag(e.what()));
  }
  return {};
}

Result<std::string> read_trace_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || std::filesystem::is_directory(path))
    return Error{ErrorKind::io,
                 "cannot read the trace '" + path.string() + "': " + std::strerror(errno != 0 ? errno : EISDIR)};
  return text.str();
}

}  // namespace castor
